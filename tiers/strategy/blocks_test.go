package strategy

import (
	"errors"
	"fmt"
	"testing"

	"github.com/foregate/foregate/tiers/accept"
	"github.com/foregate/foregate/tiers/draft"
)

func TestADraftIsCalledLostOnlyWhereItWas(t *testing.T) {
	lost := errors.New("connection reset")
	for _, c := range []struct {
		cause error
		want  string
	}{
		{fmt.Errorf("%w: %w", errDraft, lost), draft.ReasonLost},
		{fmt.Errorf("%w: the text of its ids does not begin as before", errBlock), ReasonBlock},
		{errNoVerdict, accept.ReasonNoVerdict},
		{lost, accept.ReasonNoVerdict}, // the target, asked for the text of its ids
	} {
		if got := failureReason(c.cause); got != c.want {
			t.Errorf("%v: %s, want %s", c.cause, got, c.want)
		}
	}
}
