package gateway

import (
	"runtime"
	"strings"
	"testing"
)

// TestATranslationCostsWhatItIsChargedWith compares the charge with all that is allocated, of which most is garbage before the
// end, and with what is left of it. Long texts are charged with little more than they take.
func TestATranslationCostsWhatItIsChargedWith(t *testing.T) {
	const size, garbage = 64 << 10, 3
	for name, c := range map[string]struct {
		path, head, unit, tail string
		most                   int64 // times its length
	}{
		"one text":       {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"`, `word `, `"}]}`, 3},
		"lines":          {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"`, `four words a line\n`, `"}]}`, 4},
		"an image":       {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`, `AAAA`, `"}}]}]}`, 3},
		"an input":       {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"x","name":"f","input":{"a":"`, `\"`, `"}}]},{"role":"user","content":"x"}]}`, 9},
		"messages":       {messagesPath, `{"model":"m","max_tokens":1,"messages":[`, `{"role":"user","content":"x"},`, `{"role":"user","content":""}]}`, 0},
		"tools":          {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"tools":[`, `{"name":"f","input_schema":{}},`, `{"name":"f","input_schema":{}}]}`, 0},
		"one input":      {responsesPath, `{"model":"m","input":"`, `word `, `"}`, 5},
		"an input image": {responsesPath, `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,`, `AAAA`, `"}]}]}`, 5},
		"instructions":   {responsesPath, `{"model":"m","input":"x","instructions":"`, `word `, `"}`, 5},
		"quotes":         {responsesPath, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"`, `\"`, `"}]}]}`, 9},
		"separators":     {responsesPath, `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"`, "\u2028", `"}]}]}`, 7},
		"items":          {responsesPath, `{"model":"m","input":[`, `{"role":"user","content":""},`, `{"role":"user","content":""}]}`, 0},
		"functions":      {responsesPath, `{"model":"m","input":"x","tools":[`, `{"type":"function","name":"f"},`, `{"type":"function","name":"f"}]}`, 0},

		"blocks":       {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"text","text":"a"},`, `{"type":"text","text":"a"}]}]}`, 0},
		"results":      {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"tool_result","tool_use_id":"a"},`, `{"type":"text","text":""}]}]}`, 0},
		"stops":        {messagesPath, `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}],"stop_sequences":[`, `"",`, `""]}`, 0},
		"objects":      {messagesPath, `{"model":"m","max_tokens":1,"messages":[`, `{},`, `{}]}`, 0},
		"numbers":      {responsesPath, `{"model":"m","input":[`, `0,`, `0]}`, 0},
		"reasoning":    {responsesPath, `{"model":"m","input":[`, `{"type":"reasoning"},`, `{"type":"reasoning"}]}`, 0},
		"input images": {responsesPath, `{"model":"m","input":[{"role":"user","content":[`, `{"type":"input_image","image_url":"a"},`, `{"type":"input_text","text":""}]}]}`, 0},
		"calls":        {responsesPath, `{"model":"m","input":[`, `{"type":"function_call","call_id":"a","name":"b","arguments":""},`, `{"type":"reasoning"}]}`, 0},
		"include":      {responsesPath, `{"model":"m","input":"x","include":[`, `"",`, `""]}`, 0},
	} {
		api := clientAPIs[c.path]
		body := []byte(c.head + strings.Repeat(c.unit, size/len(c.unit)) + c.tail)
		charged := api.cost.bytes(body)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := api.Translate(body)
		runtime.ReadMemStats(&after)
		left := 0
		switch { // bodies of very many values are refused, some after they were read
		case err == nil:
			left = cap(r.Chat) + r.Kept
		case c.most > 0:
			t.Fatalf("%s: %v", name, err)
		}
		if took := int64(after.TotalAlloc - before.TotalAlloc); took > garbage*charged || int64(left) > charged {
			t.Errorf("%s: %d bytes take %d and leave %d, and are charged with %d", name, len(body), took, left, charged)
		}
		if limit := c.most*int64(len(body)) + int64(len(body))/2; c.most > 0 && charged > limit {
			t.Errorf("%s: %d bytes are charged with %d, more than %d", name, len(body), charged, limit)
		}
	}
}
