package clientapi

import "testing"

func TestTheStopStringOfEachEngineIsRead(t *testing.T) {
	for choice, want := range map[string]string{
		`"stop_reason":"END"`: "END", `"matched_stop":"END"`: "END", `"stop_reason":null,"matched_stop":"END"`: "END",
		`"stop_reason":7`: "", `"matched_stop":7`: "", `"matched_stop":null`: "",
	} {
		p, err := ParsePart([]byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop",` + choice + `}]}`))
		if err != nil || p.Stop != want {
			t.Errorf("%s: %+v, %v", choice, p, err)
		}
	}
}
