package transcript_test

import (
	"fmt"

	"github.com/foregate/foregate/tiers/transcript"
)

// The gateway matches stop strings itself, over the ends of chunks: text that may be the beginning of one is
// not released.
func ExampleTranscript() {
	t := transcript.New(transcript.Options{Stop: []string{"END"}})
	for _, chunk := range []string{"All good. E", "ND and more"} {
		stopped, err := t.Append([]byte(chunk), nil)
		fmt.Printf("%q %v %v\n", t.Release(), stopped, err)
	}
	// Output:
	// "All good. " false <nil>
	// "" true <nil>
}
