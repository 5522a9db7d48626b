package upload

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// begin is a body that must be let in.
func begin(t *testing.T, g *Gate, tenant string) *Body {
	t.Helper()
	b, err := g.Begin(tenant, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// reasonOf is why something was refused, "" where it was not.
func reasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

func TestUploadsOfOneTenantLeaveRoomForOthers(t *testing.T) {
	g := New(Options{Uploads: 90, Requests: 1000, Bytes: 1000})
	n := 0
	for ; ; n++ {
		if _, err := g.Begin("greedy", 0); err != nil {
			if reasonOf(err) != TenantUploads {
				t.Errorf("refused because of %q", reasonOf(err))
			}
			break
		}
	}
	if n != 60 {
		t.Errorf("%d uploads of one tenant, want 60", n)
	}
	for range 10 {
		begin(t, g, "other")
	}
}

func TestUploadsTakeNoPlaceFromRequestsUnderWay(t *testing.T) {
	g := New(Options{Uploads: 4, Requests: 4, Bytes: 1000})
	slow := begin(t, g, "slow")
	begin(t, g, "slow")
	for i := range 3 {
		if err := begin(t, g, fmt.Sprint("quick", i)).Received(); err != nil {
			t.Fatal(err)
		}
	}
	if err := slow.Received(); err != nil {
		t.Fatal(err)
	}
	if got, want := g.Usage(), (Usage{Uploads: 1, Requests: 4, Tenants: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := g.Begin("third", 0); reasonOf(err) != Requests {
		t.Errorf("a body that no request could follow: %v", err)
	}
}

func TestABodyWhoseRequestFindsNoPlaceIsRefusedInTheEnd(t *testing.T) {
	g := New(Options{Uploads: 10, Requests: 1, Bytes: 1000})
	a, b := begin(t, g, "acme"), begin(t, g, "other")
	if err := a.Received(); err != nil {
		t.Fatal(err)
	}
	if err := b.Received(); reasonOf(err) != Requests {
		t.Errorf("%v", err)
	}
	a.Release()
	b.Release()
	if got := g.Usage(); got != (Usage{}) {
		t.Errorf("%+v is still held", got)
	}
}

func TestBytesAreHeldUntilTheRequestIsOver(t *testing.T) {
	g := New(Options{Uploads: 10, Requests: 10, Bytes: 90})
	b := begin(t, g, "acme")
	for _, n := range []int64{4, 30, 30, 10} { // it never falls
		if err := b.Charge(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Received(); err != nil {
		t.Fatal(err)
	}
	if got := g.Usage().Bytes; got != 30 {
		t.Errorf("%d bytes, want 30", got)
	}
	second := begin(t, g, "acme")
	if err := second.Charge(30); err != nil {
		t.Fatal(err)
	}
	if err := second.Charge(31); reasonOf(err) != TenantBytes {
		t.Errorf("beyond two thirds: %v", err)
	}
	other := begin(t, g, "other")
	if err := other.Charge(31); reasonOf(err) != Bytes {
		t.Errorf("beyond all: %v", err)
	}
	if err := other.Charge(30); err != nil {
		t.Errorf("what is free: %v", err)
	}
	for _, b := range []*Body{b, second, other, other} {
		b.Release()
	}
	if err := other.Charge(50); err != nil || g.Usage() != (Usage{}) {
		t.Errorf("%v, %+v is still held", err, g.Usage())
	}
}

func TestAClaimBeyondWhatThereIsIsRefusedAtOnceAndCostsNothingElse(t *testing.T) {
	g := New(Options{Uploads: 10, Requests: 10, Bytes: 90})
	if err := begin(t, g, "acme").Charge(50); err != nil {
		t.Fatal(err)
	}
	for claimed, want := range map[int64]Reason{10: "", 11: TenantBytes, 91: TenantBytes} {
		if b, err := g.Begin("acme", claimed); reasonOf(err) != want {
			t.Errorf("%d claimed: %v", claimed, err)
		} else if err == nil {
			b.Release()
		}
	}
	if _, err := g.Begin("other", 41); reasonOf(err) != Bytes {
		t.Errorf("more than is left: %v", err)
	}
	if got, want := g.Usage(), (Usage{Uploads: 1, Bytes: 50, Tenants: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestWhoKeepsABodyKeepsItsBytes(t *testing.T) {
	g := New(Options{Uploads: 10, Requests: 10, Bytes: 90})
	b := begin(t, g, "acme")
	if err := errors.Join(b.Charge(50), b.Received()); err != nil {
		t.Fatal(err)
	}
	first, second := b.Retain(), b.Retain()
	b.Release()
	first()
	if got, want := g.Usage(), (Usage{Bytes: 50, Tenants: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	second()
	b.Retain()()
	if got := g.Usage(); got != (Usage{}) {
		t.Errorf("%+v is still held", got)
	}
}

func TestBorrowedBytesAreHeldBesideTheBodysUntilTheyAreReturned(t *testing.T) {
	g := New(Options{Uploads: 10, Requests: 10, Bytes: 90})
	b := begin(t, g, "acme")
	if err := b.Charge(20); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Borrow(41); reasonOf(err) != TenantBytes {
		t.Errorf("more than its share: %v", err)
	}
	returned, err := b.Borrow(30)
	if err != nil || g.Usage().Bytes != 50 {
		t.Fatalf("%v, %+v", err, g.Usage())
	}
	if err := b.Charge(25); err != nil || g.Usage().Bytes != 55 {
		t.Errorf("%v, %+v", err, g.Usage())
	}
	returned()
	if got, want := g.Usage(), (Usage{Uploads: 1, Bytes: 25, Tenants: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	b.Release()
	if got := g.Usage(); got != (Usage{}) {
		t.Errorf("%+v is still held", got)
	}
}

func TestWhatManyTakeAtOnceIsGivenBack(t *testing.T) {
	g := New(Options{Uploads: 40, Requests: 30, Bytes: 1 << 20})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			dice := rand.New(rand.NewPCG(uint64(worker), 1))
			for range 2000 {
				b, err := g.Begin(fmt.Sprint("t", dice.IntN(5)), -1)
				if err != nil {
					continue
				}
				_ = b.Charge(dice.Int64N(1 << 18)) // granted or not
				if b.Received() == nil && dice.IntN(2) == 0 {
					defer b.Retain()()
				}
				if u := g.Usage(); u.Uploads > 40 || u.Requests > 30 || u.Bytes > 1<<20 || u.Tenants > 5 {
					t.Errorf("more than there is: %+v", u)
				}
				b.Release()
			}
		})
	}
	all.Wait()
	if got := g.Usage(); got != (Usage{}) {
		t.Errorf("%+v is still held", got)
	}
}

func TestMetricsTellWhatIsHeldAndWhatIsRefused(t *testing.T) {
	reg := prometheus.NewRegistry()
	g := New(Options{Uploads: 9, Requests: 9, Bytes: 90, Registerer: reg})
	if err := begin(t, g, "acme").Charge(30); err != nil {
		t.Fatal(err)
	}
	_ = begin(t, g, "acme").Charge(31)
	if got := testutil.ToFloat64(g.metrics.refused.WithLabelValues(string(TenantBytes))); got != 1 {
		t.Errorf("%v refusals are counted, want 1", got)
	}
	n, err := testutil.GatherAndCount(reg)
	if problems, lint := testutil.GatherAndLint(reg); err != nil || lint != nil || len(problems) > 0 || n != 3+len(reasons) {
		t.Errorf("%d series, %v, %v, %v", n, err, problems, lint)
	}
}
