package display

import (
	"fmt"
	"io"
	"strings"

	"github.com/foregate/foregate/gateway"
)

// printTargets prints the routes with several targets.
func printTargets(w io.Writer, all []gateway.TargetsView) {
	t := Table{MaxWidth: 36}
	for _, v := range all {
		var words []string
		for _, target := range v.Targets {
			words = append(words, shareText(target))
		}
		t.Add("targets "+v.Route, strings.Join(words, ", "))
		for _, target := range v.Targets {
			if target.Diverted {
				t.Add("", "POOL "+target.Pool+" TAKES NO REQUESTS: "+v.Targets[0].Pool+" answers its conversations")
			}
			for _, m := range target.UnavailableModes {
				t.Add("", "mode "+m.Name+" unavailable: "+m.Reason)
			}
		}
	}
	t.Write(w)
}

// shareText is a target with its share.
func shareText(v gateway.TargetView) string { return fmt.Sprintf("%s %.3g%%", v.Pool, 100*v.Share) }
