package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/foregate/foregate/gateway/conversations"
)

// startKeeping is a gateway that stores responses. The first one is there: its answer has one item, with a text.
func startKeeping(t *testing.T, text string) (b *bench, response, item string) {
	t.Helper()
	_, c := newRedis(t)
	store := conversations.New(conversations.Options{Redis: c, MaxBytes: 4 << 20, Config: func() conversations.Config {
		return conversations.Config{Enabled: true, TTL: time.Hour, TenantBytes: 64 << 20}
	}})
	background(t, store.Run)
	b = startBench(t, simulator(t).URL(), func(o *Options) { o.Conversations = store })
	turn := conversations.Turn{ID: conversations.Next(conversations.ID{}, strings.Repeat("1", 32))}
	response, item = conversations.ResponsePrefix+turn.ID.String(), "msg_"+turn.ID.String()+"_0"
	turn.Output = json.RawMessage(fmt.Sprintf(`[{"type":"message","id":%q,"role":"assistant","content":[{"type":"output_text","text":%q}]}]`, item, text))
	turn.Whole = fmt.Appendf(nil, `{"id":%q,"object":"response","output":%s}`, response, turn.Output)
	soon(t, "the response is stored", func() bool { return store.Put(t.Context(), "default", turn, 0) == nil })
	return b, response, item
}

func TestEachReferenceToAnItemIsCharged(t *testing.T) {
	b, _, item := startKeeping(t, strings.Repeat("long ", 32<<10/5))
	ask := func(times int) reply {
		references := strings.Repeat(`{"type":"item_reference","id":"`+item+`"},`, times)
		return b.to(t, responsesPath, "", `{"model":"nobody-has-it","input":[`+references+`{"role":"user","content":"and"}]}`)
	}
	for times, want := range map[int]string{3: "model_not_found", 10_000: "context_length_exceeded"} {
		r := ask(times)
		if _, code, _ := r.says(); code != want || times > 3 && !strings.Contains(r.body, `"input[127].id"`) { // 4 MiB
			t.Errorf("%d references: %s, want %s", times, r.body, want)
		}
	}
	soon(t, "nothing is held for them", b.idle)
}

func TestAStoredResponseIsShownAsItIsWithinTheTenantsShare(t *testing.T) {
	b, id, _ := startKeeping(t, strings.Repeat("<", 200<<10))
	show := func() reply { return b.get(t, responsesPath+"/"+id, "") }
	if r := show(); r.status != http.StatusOK || !strings.Contains(r.body, strings.Repeat("<", 200<<10)) || r.head.Get("Content-Type") != "application/json" {
		t.Errorf("%d %v, %d bytes", r.status, r.head, len(r.body))
	}
	soon(t, "nothing is held for it", b.idle)
	b.shrink(1 << 20)
	b.stalled(t, "default", 600<<10, maxUnproved)
	soon(t, "a body is charged", func() bool { return b.held().bytes >= 600<<10 })
	if _, code, _ := show().says(); code != "tenant_share" {
		t.Errorf("beyond the tenant's share: %s", code)
	}
}
