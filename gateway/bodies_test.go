package gateway

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// room are bodies with so much room.
func room(requests int, bytes int64) *bodies {
	return newBodies(Limits{InFlight: requests, Bodies: bytes}, prometheus.NewRegistry())
}

func beginBody(t *testing.T, b *bodies, tenant string) *body {
	t.Helper()
	one, err := b.begin(tenant, 0)
	if err != nil {
		t.Fatal(err)
	}
	return one
}

// reasonOf is why a body was refused; "" if it was not.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*shortage](err); ok {
		return e.reason()
	}
	return ""
}

// expectHeld checks what is held, and by how many tenants.
func expectHeld(t *testing.T, b *bodies, requests, bytes int64, tenants int) {
	t.Helper()
	r, n := b.usage()
	if r != requests || n != bytes || len(b.tenants) != tenants {
		t.Errorf("%d requests, %d bytes and %d tenants, want %d, %d and %d", r, n, len(b.tenants), requests, bytes, tenants)
	}
}

func TestATenantMayHoldTwiceWhatIsFree(t *testing.T) {
	for _, tc := range []struct {
		total, used, held, n int64
		want                 string
	}{
		{1, 0, 0, 1, ""}, {1, 1, 0, 1, "bytes"}, {1, 1, 1, 1, "tenant_bytes"},
		{90, 0, 0, 90, ""}, {90, 0, 0, 91, "bytes"}, // nobody else holds anything
		{90, 30, 30, 1, ""}, {90, 59, 59, 1, ""}, {90, 60, 60, 1, "tenant_bytes"}, {90, 1, 1, 60, "tenant_bytes"}, // two thirds
		{90, 60, 0, 1, ""}, {90, 60, 0, 30, ""}, {90, 60, 0, 31, "bytes"}, // another finds the rest
		{90, 60, 10, 20, "bytes"}, {90, 60, 10, 10, ""}, {90, 60, 30, 1, ""}, {90, 72, 36, 1, "tenant_bytes"}, // two fifths
		{90, 90, 30, 1, "bytes"}, {90, 89, 89, 1, "tenant_bytes"},
	} {
		q, held := quota{tc.total, tc.used}, tc.held
		err := room(1, 1).take(&q, &held, tc.n, "bytes")
		if got := reasonOf(err); got != tc.want {
			t.Errorf("%d of %d used, of that %d by the tenant, %d more: %q, want %q", tc.used, tc.total, tc.held, tc.n, got, tc.want)
		}
		if more := held - tc.held; q.used-tc.used != more || (more == tc.n) != (err == nil) {
			t.Errorf("%d more were taken of %d", more, tc.n)
		}
	}
}

func FuzzNobodyGetsMoreThanThereIs(f *testing.F) {
	f.Add(uint64(1), int64(100), 3)
	f.Fuzz(func(t *testing.T, seed uint64, total int64, tenants int) {
		if total < 1 || total > 1<<40 || tenants < 1 || tenants > 50 {
			return
		}
		dice := rand.New(rand.NewPCG(seed, 0))
		b, q, held := room(1, 1), quota{total: total}, make([]int64, tenants)
		for range 500 {
			i, n := dice.IntN(tenants), 1+dice.Int64N(total)
			if dice.IntN(3) == 0 { // it gives some back
				n = min(n, held[i])
				held[i] -= n
				q.used -= n
				continue
			}
			free, had := total-q.used, held[i]
			switch err := b.take(&q, &held[i], n, "bytes"); {
			case err == nil && (n > free || had > 0 && had+n > 2*(free-n)):
				t.Fatalf("%d granted to one that holds %d, with %d free", n, had, free)
			case err != nil && had == 0 && n <= free:
				t.Fatalf("%d of %d free refused to one that holds nothing", n, free)
			}
		}
	})
}

func TestAClaimBeyondWhatThereIsIsRefusedAtOnceAndCostsNothingElse(t *testing.T) {
	b := room(10, 90)
	if err := beginBody(t, b, "acme").charge(50); err != nil {
		t.Fatal(err)
	}
	for claimed, want := range map[int64]string{10: "", 11: "tenant_bytes", 91: "tenant_bytes"} {
		one, err := b.begin("acme", claimed)
		if reasonOf(err) != want {
			t.Errorf("%d claimed: %v", claimed, err)
		}
		if err == nil {
			one.release()
		}
	}
	if _, err := b.begin("other", 41); reasonOf(err) != "bytes" {
		t.Errorf("more than is left: %v", err)
	}
	expectHeld(t, b, 1, 50, 1)
}

func TestWhoKeepsABodyKeepsItsBytesAndNoPlace(t *testing.T) {
	b := room(10, 90)
	one := beginBody(t, b, "acme")
	if err := one.charge(50); err != nil {
		t.Fatal(err)
	}
	first, second := one.Retain(), one.Retain()
	one.release()
	first()
	expectHeld(t, b, 0, 50, 1)
	second()
	expectHeld(t, b, 0, 0, 0)
}

func TestBorrowedBytesAreHeldBesideTheBodysUntilTheyAreReturned(t *testing.T) {
	b := room(10, 90)
	one := beginBody(t, b, "acme")
	if err := one.charge(20); err != nil {
		t.Fatal(err)
	}
	if err := one.borrow(41); err != error(errTranslation) {
		t.Errorf("more than its share of an idle gateway: %v", err)
	}
	other := beginBody(t, b, "acme")
	if err := other.charge(10); err != nil {
		t.Fatal(err)
	}
	if err := one.borrow(40); reasonOf(err) != "tenant_bytes" {
		t.Errorf("more than its share now: %v", err)
	}
	other.release()
	if err := one.borrow(30); err != nil {
		t.Fatal(err)
	}
	expectHeld(t, b, 1, 50, 1)
	if err := one.charge(25); err != nil {
		t.Error(err)
	}
	expectHeld(t, b, 1, 25, 1)
	one.release()
	expectHeld(t, b, 0, 0, 0)
}

func TestBodiesOfEverySizeAreReadWhole(t *testing.T) {
	const maximum = 1 << 20
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := bodyReader{max: maximum, wait: time.Minute}.take(w, r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = w.Write(body)
	}))
	defer srv.Close()
	for _, size := range []int{0, 1, maxUnproved - 1, maxUnproved, maxUnproved + 1, 5*maxUnproved + 7, maximum, maximum + 1} {
		sent := bytes.Repeat([]byte("abcdefg"), size/7+1)[:size]
		for name, body := range map[string]io.Reader{"told": bytes.NewReader(sent), "chunked": io.MultiReader(bytes.NewReader(sent))} {
			resp, err := http.Post(srv.URL, "application/json", body)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if ok := resp.StatusCode == http.StatusOK; err != nil || ok != (size <= maximum) || ok && !bytes.Equal(got, sent) {
				t.Errorf("%d bytes, %s: status %d, %d bytes back, %v", size, name, resp.StatusCode, len(got), err)
			}
		}
	}
}
