package gateway

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"github.com/foregate/foregate/gateway/receipts"
	"github.com/foregate/foregate/tiers"
	"github.com/foregate/foregate/tiers/engine"
)

// told reads the receipts that the admin listener tells.
func (o office) told(t *testing.T, query string) (list []receipts.Receipt) {
	t.Helper()
	resp, err := o.client.Get(o.admin + "/admin/receipts" + query)
	if err != nil {
		t.Fatal(err)
	}
	text, err := rest(resp)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %s %v: %s", resp.StatusCode, resp.Header.Get("Content-Type"), err, text)
	}
	for line := range strings.Lines(text) {
		list = append(list, readReceipt(t, []byte(line)))
	}
	return list
}

// milliseconds reads the durations of receipts.
var milliseconds = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFunc(func(text []byte, d *time.Duration) error {
	ms, err := strconv.ParseFloat(string(text), 64)
	*d = time.Duration(ms * float64(time.Millisecond))
	return err
}))

func readReceipt(t *testing.T, text []byte) (r receipts.Receipt) {
	t.Helper()
	if err := jsonv2.Unmarshal(text, &r, milliseconds); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return r
}

func openBooks(t *testing.T) office {
	t.Helper()
	log := &lines{}
	b := startBench(t, simulator(t).URL(), func(o *Options) {
		o.Logger = zerolog.New(log)
		o.Settings = setting(t, "receipts.log_sample_rate", "1")
	})
	return office{bench: b, admin: "http://" + b.AdminAddr().String(), log: log}
}

func TestWhatWasDecidedForARequestCanBeRead(t *testing.T) {
	o := openBooks(t)
	const secret = "a word that must not be told"
	ask := func(model string) (id string, code int) {
		code, body := o.send(t, http.MethodPost, o.url+"/v1/chat/completions", `{"model":"`+model+`","max_tokens":5,"messages":[{"role":"user","content":"`+secret+`"}]}`,
			"Content-Type", "application/json", "Authorization", "Bearer sk-hidden")
		var answer struct{ ID string }
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatal(err)
		}
		id, _, _ = strings.Cut(strings.TrimPrefix(answer.ID, "chatcmpl-"), "-") // behind it is which try of the request this was
		return id, code
	}
	id, code := ask("llama-3")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	ask("nobody knows")                                                                                    // leaves none
	for until := time.Now().Add(20 * time.Second); len(o.told(t, "")) == 0; time.Sleep(time.Millisecond) { // it is filed after the answer
		if time.Now().After(until) {
			t.Fatal("there is no receipt")
		}
	}
	r := o.told(t, "?n=1&route=llama-3&acceptance=bypassed&since=1h")[0]
	if r.ID != id || r.Code != 200 || r.Tier != "target" || r.Plan.Reason != "no_draft_pool" || r.Settings.Mode != "confidence" || r.Tokens.Target != 5 || len(r.Attempts) != 1 || r.MS.FirstByte <= 0 || r.MS.Total < r.MS.FirstByte {
		t.Errorf("%+v %+v", r, r.Plan)
	}
	if list := o.told(t, "?acceptance=rejected"); len(list) != 0 {
		t.Errorf("%d rejected", len(list))
	}
	if list := o.told(t, "?since="+url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))); len(list) != 0 {
		t.Errorf("%d of the future", len(list))
	}
	code, one := o.send(t, http.MethodGet, o.admin+"/admin/receipts/"+id, "")
	if code != http.StatusOK || !strings.Contains(one, `"id":"`+id+`"`) {
		t.Errorf("%d %s", code, one)
	}
	lines := o.log.holding(`"message":"receipt"`)
	if len(lines) != 1 || !strings.Contains(lines[0], strings.TrimSpace(one)) {
		t.Errorf("the log has %q", lines)
	}
	if all := one + strings.Join(lines, ""); strings.Contains(all, "must not") || strings.Contains(all, "sk-hidden") {
		t.Errorf("it tells too much: %s", all)
	}
}

func TestBadQuestionsForReceiptsAreRefusedByName(t *testing.T) {
	o := openBooks(t)
	for _, tc := range []struct {
		path, want string
		code       int
	}{
		{"?n=0", `"param":"n"`, 400},
		{"?n=1001", `"param":"n"`, 400},
		{"?n=many", `"param":"n"`, 400},
		{"?acceptance=maybe", `"param":"acceptance"`, 400},
		{"?since=yesterday", `"param":"since"`, 400},
		{"?since=-5m", `"param":"since"`, 400},
		{"?route=nobody", `"code":"model_not_found"`, 404},
		{"?tenant=a", `"param":"tenant"`, 400},
		{"?n=1&n=2", `"param":"n"`, 400},
		{"/unheard-of", `"code":"unknown_receipt"`, 404},
		{"/unheard-of?n=1", `"param":"n"`, 400},
	} {
		if code, body := o.send(t, http.MethodGet, o.admin+"/admin/receipts"+tc.path, ""); code != tc.code || !strings.Contains(body, tc.want) {
			t.Errorf("%s: %d %s", tc.path, code, body)
		}
	}
}

func TestWhyARequestFailedIsInItsReceipt(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 200, ""},
		{errOverloaded, 503, "overloaded"},
		{&tiers.BrokenError{Cause: &engine.Failure{Kind: engine.Stalled}}, statusBroken, string(engine.Stalled)},
		{errors.New("secret detail"), statusGone, "client_left"},
		{errors.New("secret detail"), 500, "internal_error"},
	} {
		f := (&Gateway{}).receiptOf(&accessRecord{route: "r", code: tc.code, err: tc.err}, "/", 0)
		if f.Error != tc.want {
			t.Errorf("%v with %d: %q, want %q", tc.err, tc.code, f.Error, tc.want)
		}
	}
}
