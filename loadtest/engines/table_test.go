package engines

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// kindOfAnswer is a row of the table: what was compared.
type kindOfAnswer struct{ engine, api, kind string }

// outcome is how a comparison ended: the gateway's answer was the engine's own, or another for which the engine itself gives
// the reason, or neither.
type outcome int

const (
	equal outcome = iota
	explained
	different
)

// tallies counts the comparisons of all tests; the program prints them at its end.
var tallies struct {
	mu   sync.Mutex
	rows map[kindOfAnswer]*[3]int
}

// tally counts a comparison.
func tally(k kindOfAnswer, o outcome) {
	tallies.mu.Lock()
	defer tallies.mu.Unlock()
	if tallies.rows == nil {
		tallies.rows = map[kindOfAnswer]*[3]int{}
	}
	if tallies.rows[k] == nil {
		tallies.rows[k] = new([3]int)
	}
	tallies.rows[k][o]++
}

// writeTable appends the table to the file that FOREGATE_ENGINES_TABLE names, as make engines asks for, or prints it.
func writeTable() error {
	if len(tallies.rows) == 0 {
		return nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "engine\tAPI\tkind\tcompared\tequal\texplained") // a Builder takes everything
	var sum [3]int
	keys := slices.SortedFunc(maps.Keys(tallies.rows), func(a, b kindOfAnswer) int {
		return cmp.Or(cmp.Compare(a.engine, b.engine), cmp.Compare(a.api, b.api), cmp.Compare(a.kind, b.kind))
	})
	for _, k := range keys {
		n := tallies.rows[k]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\n", k.engine, k.api, k.kind, n[equal]+n[explained]+n[different], n[equal], n[explained])
		for i := range n {
			sum[i] += n[i]
		}
	}
	_, _ = fmt.Fprintf(w, "all\t\t\t%d\t%d\t%d\n", sum[equal]+sum[explained]+sum[different], sum[equal], sum[explained])
	_ = w.Flush() // as above
	path := os.Getenv("FOREGATE_ENGINES_TABLE")
	if path == "" {
		fmt.Print(b.String())
		return nil
	}
	return os.WriteFile(path, []byte(b.String()), 0o600)
}
