package loadtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/foregate/foregate/loadtest/vllmsim"
)

// workload makes the load of a scenario's first case.
func workload(t *testing.T, text string) *Workload {
	t.Helper()
	s, err := Parse("a.yaml", []byte(text+"\ntarget: {profile: x}\n"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWorkload(s, &s.Cases[0], s.Seed)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// talk returns all requests of a conversation, each answered with an answer.
func talk(s *Session) []*Request {
	all := []*Request{s.Request()}
	for {
		if _, more := s.Answered(fmt.Sprintf(" answer %d", len(all))); !more {
			return all
		}
		all = append(all, s.Request())
	}
}

const mixed = `
duration: 1h
arrivals: {poisson: 5}
prompts:
  - {name: chat, weight: 3, system: {tokens: 120, variants: 4, zipf: 1}, question: {p50: 30, p95: 120}, turns: {min: 1, max: 5}, think: 3, repeat: 0.2, output: {min: 10, max: 20}, max_tokens: 15}
  - {name: rag, context: {tokens: {min: 300, max: 600}, variants: 20, zipf: 1}, system: {tokens: 50, variants: 1}, question: 10, stream: false, temperature: 1}
  - {name: own, context: {tokens: 100}, question: 10, repeat: 0.5}
tenants: [{id: acme, weight: 2, priority: {high: 1, normal: 3}}, {id: beta}]`

func TestTheSameScenarioAndSeedMakeTheSameRequestsInAnyOrder(t *testing.T) {
	a, b := workload(t, mixed), workload(t, mixed)
	type seen struct {
		at    time.Duration
		think time.Duration
		all   []*Request
	}
	look := func(w *Workload, i int) seen {
		at, _ := w.Start(i)
		s := w.Session(i)
		return seen{at, s.Think(), talk(s)}
	}
	const n = 600
	var want [n]seen
	for i := range n {
		want[i] = look(a, i)
	}
	var wg sync.WaitGroup
	for part := range 4 {
		wg.Go(func() {
			for i := n - 1 - part; i >= 0; i -= 4 {
				if diff := cmp.Diff(want[i], look(b, i), cmp.AllowUnexported(seen{})); diff != "" {
					t.Errorf("conversation %d: %s", i, diff)
				}
			}
		})
	}
	wg.Wait()
	other, err := NewWorkload(a.s, &a.s.Cases[0], 2)
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(look(other, 0), want[0], cmp.AllowUnexported(seen{})) {
		t.Error("another seed makes the same first request")
	}
}

func TestAConversationGrowsByAnswerAndQuestion(t *testing.T) {
	w := workload(t, mixed)
	longest := 0
	for i := range 200 {
		s := w.Session(i)
		all := talk(s)
		for turn, r := range all {
			head := 0
			if r.Prompt != "own" || len(r.Messages) > 0 && r.Messages[0].Role == "system" {
				head = 1
			}
			if len(r.Messages) != head+2*turn+1 || r.Turn != turn || r.Session != i {
				t.Fatalf("conversation %d turn %d has %d messages, turn %d of %d", i, turn, len(r.Messages), r.Turn, r.Session)
			}
			if turn > 0 {
				before := all[turn-1].Messages
				want := append(slices.Clone(before), Message{"assistant", fmt.Sprintf(" answer %d", turn)})
				if diff := cmp.Diff(want, r.Messages[:len(r.Messages)-1]); diff != "" {
					t.Fatal(diff)
				}
			}
			if last := r.Messages[len(r.Messages)-1]; last.Role != "user" || last.Content == "" {
				t.Fatalf("the last message is %+v", last)
			}
		}
		longest = max(longest, len(all))
	}
	if longest != 5 {
		t.Errorf("the longest has %d turns, want 5", longest)
	}
}

func TestARequestIsWhatItsPromptSays(t *testing.T) {
	w := workload(t, mixed)
	for i := range 300 {
		r := w.Session(i).Request()
		switch r.Prompt {
		case "chat":
			if !r.Stream || !r.IgnoreEOS || r.MaxTokens < 10 || r.MaxTokens > 15 || r.RAGHash != "" || len(strings.Fields(r.Messages[0].Content)) != 120 {
				t.Fatalf("%+v", r)
			}
		case "rag":
			if n := len(strings.Fields(r.Messages[0].Content)); r.Stream || r.IgnoreEOS || r.MaxTokens != 0 || r.Temperature != 1 || len(r.RAGHash) != 64 || n < 350 || n > 650 {
				t.Fatalf("%d words, %+v", n, r)
			}
		case "own":
			if r.RAGHash == "" {
				t.Fatalf("%+v", r)
			}
		}
	}
}

func TestSharedTextIsTheSameInEveryRunAndDiffersBetweenVariants(t *testing.T) {
	w := workload(t, mixed)
	other, err := NewWorkload(w.s, &w.s.Cases[0], 99)
	if err != nil {
		t.Fatal(err)
	}
	first := map[string]string{} // word → text
	for i := range 400 {
		for _, w := range []*Workload{w, other} {
			if r := w.Session(i).Request(); r.Prompt == "chat" {
				text := r.Messages[0].Content
				word := strings.Fields(text)[0]
				if old, ok := first[word]; ok && old != text {
					t.Fatal("two system prompts begin with the same word")
				}
				first[word] = text
			}
		}
	}
	if len(first) != 4 {
		t.Errorf("%d system prompts, want 4", len(first))
	}
}

func TestEveryUserHasAContextOfHisOwn(t *testing.T) {
	w := workload(t, `
duration: 60s
arrivals: {closed: {users: 30, think: {min: 1, max: 3}}}
prompts: [{name: a, context: {tokens: 4000, per_user: true}, question: 5, repeat: 0.3}]
tenants: [{id: a, weight: 2}, {id: b, weight: 1}]`)
	texts, firsts, tenants := map[string]int{}, map[string]bool{}, map[string]int{}
	for i := range 300 {
		r := w.Session(i).Request()
		text := r.Messages[0].Content
		if user, ok := texts[text]; ok && user != i%30 {
			t.Fatalf("users %d and %d share a context", user, i%30)
		}
		texts[text] = i % 30
		firsts[strings.Fields(text)[0]] = true
		tenants[r.Tenant]++
	}
	if len(texts) != 30 || len(firsts) != 30 || tenants["a"] != 200 {
		t.Errorf("%d contexts, %d first words, want 30; tenants %v, want 200 of a", len(texts), len(firsts), tenants)
	}
	if !w.Closed() || w.Users() != 30 {
		t.Errorf("%d users", w.Users())
	}
	if _, ok := w.Start(0); ok {
		t.Error("a closed load has a start")
	}
	starts := map[time.Duration]bool{}
	for u := range 30 {
		d := w.FirstThink(u)
		if d < 0 || d > 3*time.Second {
			t.Errorf("user %d begins after %s", u, d)
		}
		starts[d] = true
		if p := w.Session(u).Think(); p < time.Second || p > 3*time.Second {
			t.Errorf("user %d pauses %s", u, p)
		}
	}
	if len(starts) < 25 {
		t.Errorf("%d users begin together", 30-len(starts)+1)
	}
}

func TestWordsAreTokensOfTheSimulator(t *testing.T) {
	tok := vllmsim.DefaultTokenizer()
	if n := len(vocabulary); n != 512 || !slices.IsSorted(vocabulary) || len(slices.Compact(slices.Clone(vocabulary))) != n {
		t.Errorf("%d words, want 512 in order", n)
	}
	for _, word := range vocabulary {
		if a, b := len(tok.Encode(" "+word)), len(tok.Encode(word)); a != 1 || b != 1 {
			t.Errorf("%q is %d and %d tokens", word, a, b)
		}
	}
	for number := range uint64(50) {
		if n := len(tok.Encode(text(draw(number*77), number, 3000))); n != 3000 {
			t.Errorf("text %d is %d tokens, want 3000", number, n)
		}
		if n := len(tok.Encode(text(draw(number*77), number, 3000)[1:])); n != 3000 {
			t.Errorf("text %d is %d tokens without its first space, want 3000", number, n)
		}
	}
}

func TestARepeatHasTheWordsOfAnEarlierConversation(t *testing.T) {
	for _, share := range []float64{0.1, 0.5, 0.9} {
		w := workload(t, fmt.Sprintf(`
duration: 1h
arrivals: {poisson: 5}
prompts:
  - {name: a, question: 12, context: {tokens: 30}, turns: {min: 1, max: 3}, output: {min: 1, max: 100}, repeat: %v}
tenants: [{id: a}, {id: b, weight: 3}]`, share))
		const n = 4000
		first, counts := map[string]int{}, map[string]int{}
		repeats := 0
		for i := range n {
			all := talk(w.Session(i))
			r := all[len(all)-1]
			key := fmt.Sprint(r.Tenant, r.MaxTokens, r.Messages)
			from, ok := first[key]
			if !ok {
				first[key] = i
				continue
			}
			if from >= i || w.origin(i) != w.origin(from) {
				t.Fatalf("%d says what %d says, with origins %d and %d", i, from, w.origin(i), w.origin(from))
			}
			repeats++
			counts[key]++
		}
		if got := float64(repeats) / n; math.Abs(got-share) > 0.03 {
			t.Errorf("%.3f repeat, want %v", got, share)
		}
		maximum := 0
		for _, c := range counts {
			maximum = max(maximum, c)
		}
		if maximum*10 < repeats/10 {
			t.Errorf("the most popular is repeated %d times of %d; want a few that are popular", maximum, repeats)
		}
	}
}

func TestTenantsPrioritiesAndPromptsHaveTheirShares(t *testing.T) {
	w := workload(t, mixed)
	got := map[string]int{}
	const n = 20_000
	for i := range n {
		got[w.kinds[w.kindOf(i)].Name]++
		got[w.tenants[w.tenantOf(i)].ID]++
		if w.tenantOf(i) == 0 {
			got[w.Session(i).priority]++
		}
	}
	acme := float64(got["acme"])
	for name, want := range map[string]float64{
		"chat": n * 0.6, "rag": n * 0.2, "own": n * 0.2, "acme": n * 2.0 / 3, "beta": n / 3.0,
		"high": acme / 4, "normal": acme * 3 / 4, "low": 0,
	} {
		if math.Abs(float64(got[name])-want) > 4*math.Sqrt(want+1) {
			t.Errorf("%d of %s, want about %.0f", got[name], name, want)
		}
	}
}

const standing = `
duration: 1h
arrivals: {poisson: 5}
prompts:
  - {name: ask, system: {tokens: 20, variants: 1}, context: {tokens: 50, variants: 10}, question: {min: 5, max: 30}, output: {min: 10, max: 90}, catalogue: {share: 0.4, size: 30, zipf: 1}}
tenants: [{id: a}, {id: b}]`

func TestACataloguesShareOfTheConversationsIsSaidAgainWordForWord(t *testing.T) {
	w := workload(t, standing)
	const n = 5000
	times := map[string]int{} // what is asked, by whom
	lengths := map[string]int{}
	for i := range n {
		r := w.Session(i).Request()
		key := fmt.Sprintf("%s %q", r.Tenant, r.Messages)
		if l, seen := lengths[key]; seen && l != r.MaxTokens {
			t.Fatalf("the same words want answers of %d and %d tokens", l, r.MaxTokens)
		}
		lengths[key] = r.MaxTokens
		times[key]++
	}
	var again []int
	for _, k := range times {
		if k > 1 {
			again = append(again, k)
		}
	}
	slices.Sort(again)
	sum := 0
	for _, k := range again {
		sum += k
	}
	if len(again) != 2*30 || math.Abs(float64(sum)/n-0.4) > 0.03 {
		t.Errorf("%d conversations are said again, %d times of %d; want 60, and 40 %%", len(again), sum, n)
	}
	if maximum := again[len(again)-1]; maximum < 8*again[0] {
		t.Errorf("the most popular is said %d times, the least %d; want about as 30 to 1", maximum, again[0])
	}
}

func TestConversationsOfTheSameWordsAreNumberedSo(t *testing.T) {
	w := workload(t, standing)
	said := map[int]string{}
	asked := map[string]int{}
	for i := range 2000 {
		r := w.Session(i).Request()
		text := fmt.Sprintf("%s %q", r.Tenant, r.Messages)
		words := w.Words(i)
		if before, ok := said[words]; ok && before != text {
			t.Fatalf("conversation %d says something else than an earlier one of its number", i)
		}
		if before, ok := asked[text]; ok && before != words {
			t.Fatalf("conversation %d says the same as one of another number", i)
		}
		said[words], asked[text] = text, words
	}
	if n := 2000 - len(said); n < 600 {
		t.Errorf("%d conversations of 2,000 say what an earlier one said, want nearly 40 %%", n)
	}
}
