package tiers

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/foregate/foregate/tiers/openai"
	"github.com/foregate/foregate/tiers/plan"
)

// TestStreamsSideBySideKeepTheirOwnText runs relayed and drafted streams at once, under the race detector in particular:
// windows, parsers and buffers of one go to the next, and none has text of another.
func TestStreamsSideBySideKeepTheirOwnText(t *testing.T) {
	const streams, rounds, words = 8, 6, 40
	name := regexp.MustCompile(`stream-\d+-`)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		own := string(name.Find(body))
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, roleChunk)
		for i := range words {
			say(w, spoken(own+strconv.Itoa(i)+" ", strconv.Itoa(i+10), -0.01, ""))
		}
		say(w, spoken("", "2", -0.01, "stop"), usageTail, openai.Done)
	}))
	t.Cleanup(backend.Close)
	r := scriptedRig(t, backend.URL, backend.URL)
	var group sync.WaitGroup
	for i := range streams {
		group.Go(func() {
			own := "stream-" + strconv.Itoa(i) + "-"
			tier := [...]plan.Tier{plan.Target, plan.Auto}[i%2]
			for range rounds {
				req, err := openai.Scan(openai.Chat, []byte(chat(own, `,"stream":true`)), openai.DefaultLimits())
				if err != nil {
					t.Error(err)
					return
				}
				var out collector
				if _, err := answerBy(t.Context(), r.cascade, arrival{Body: req, Tier: tier, ID: own, Header: http.Header{}}, &out); err != nil {
					t.Error(err)
					return
				}
				sent := bytes.Join(out.writes, nil)
				for _, found := range name.FindAllString(string(sent), -1) {
					if found != own {
						t.Errorf("%s got text of %s", own, found)
						return
					}
				}
				if got := strings.Count(string(sent), own); got < words {
					t.Errorf("%s has %d of %d words", own, got, words)
				}
			}
		})
	}
	group.Wait()
}
