package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// allowAll are limits under which everything passes that any route may list.
func allowAll() Limits {
	lim := DefaultLimits()
	lim.Allow = func(string) []string { return append(AllowableFields(), Kwargs+".style") }
	return lim
}

// scanners are the ways in which requests are read, by path.
var scanners = map[string]func(body []byte, lim Limits) error{
	"/v1/chat/completions": func(body []byte, lim Limits) error { _, err := Scan(Chat, body, lim); return err },
	"/v1/completions":      func(body []byte, lim Limits) error { _, err := Scan(Completion, body, lim); return err },
	"/v1/embeddings":       peekAt("/v1/embeddings"),
	"/v1/responses":        peekAt("/v1/responses"),
	"/v1/messages":         peekAt("/v1/messages"),
	"/tokenize":            peekAt("/tokenize"),
	"/v1/rerank":           peekAt("/v1/rerank"),
	"/v1/score":            peekAt("/v1/score"),
	"/pooling":             peekAt("/pooling"),
}

func peekAt(path string) func([]byte, Limits) error {
	return func(body []byte, lim Limits) error { _, err := Peek(path, body, lim); return err }
}

// addresses are what engines would fetch or open, as JSON strings.
var addresses = []string{
	`"http://169.254.169.254/"`, `"HTTP://169.254.169.254/"`, `" http://169.254.169.254/"`, `"\thttp://169.254.169.254/"`, `"\u0068ttp:\/\/169.254.169.254/"`,
	`"file:/etc/passwd"`, `"file:///etc/passwd"`, `"/etc/passwd"`, `"secret.png"`, `"//169.254.169.254/"`, `"169.254.169.254/latest"`, `"ftp:x"`,
	`"data:text/html;base64,AAAA"`, `"data:image/svg+xml;base64,AAAA"`, `"data:image/png,AAAA"`, `"DATA:image/png;base64,AAAA"`, `" data:image/png;base64,AAAA"`,
	`"data:image/png\n;base64,AAAA"`, `["http://x"]`, `{"url":"http://x"}`, `{"url":["data:image/png;base64,AAAA"]}`, `{"url":{"url":"http://x"}}`,
	`{"url":"data:image/png;base64,AAAA","URL":"http://x"}`, `{"detail":"http://x"}`, `7`, `true`,
}

// forms are content parts by which an engine is told to fetch; %s stands for the address.
var forms = []string{
	`{"type":"text","uuid":"1","image_url":%s}`,
	`{"type":"text","text":"a","image_url":%s}`,
	`{"type":"text","text":{"image_url":%s}}`,
	`{"image_url":%s}`,
	`{"image_url":{"url":%s}}`,
	`{"uuid":"1","text":"a","audio_url":%s}`,
	`{"type":null,"image_url":%s}`,
	`{"type":7,"video_url":%s}`,
	`{"type":["text"],"video_url":%s}`,
	`{"type":"refusal","video_url":%s}`,
	`{"type":"refusal","refusal":"a","video_url":{"url":%s}}`,
	`{"type":"thinking","thinking":"a","image_url":%s}`,
	`{"type":"image_url","image_url":%s}`,
	`{"type":"image_url","image_url":{"url":%s,"detail":"low"}}`,
	`{"type":"image_url","image_url":[{"url":%s}]}`,
	`{"ty\u0070e":"image_url","im\u0061ge_url":%s}`,
	`{"type":"im\u0061ge_url","image_url":%s}`,
	`{"type":"image_url","uuid":"1","image_url":%s}`,
	`{"type":"image_url","image_url":"data:image/png;base64,AAAA","video_url":%s}`,
	`{"type":"image_url","image_url":"data:image/png;base64,AAAA","Image_URL":%s}`,
	`{"type":"image_url","Image_URL":%s}`,
	`{"type":"image_url","url":%s}`,
	`{"type":"input_image","image_url":%s}`,
	`{"type":"input_image","file_id":%s}`,
	`{"type":"audio_url","audio_url":{"url":%s}}`,
	`{"type":"video_url","video_url":{"url":%s}}`,
	`{"type":"input_audio","input_audio":%s}`,
	`{"type":"input_audio","input_audio":{"url":%s}}`,
	`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav","url":%s}}`,
	`{"type":"file","file":{"file_data":%s}}`,
	`{"type":"input_file","file_url":%s}`,
	`{"type":"image","source":{"type":"url","url":%s}}`,
	`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA","url":%s}}`,
	`{"type":"image","source":%s}`,
	`{"type":"image","source":{"type":"url","urm":%s}}`,
	`{"type":"image","image":%s}`,
	`{"type":"image_url","image_url":"data:image/png;base64,AAAA","":%s}`,
	`{"type":"image","path":%s}`,
	`{"type":"image_pil","image_pil":%s}`,
	`{"type":"image_embeds","image_embeds":%s}`,
	`{"type":"TEXT","image_url":%s}`,
	`{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","uuid":"1","image_url":%s}]}`,
	`{"type":"tool_result","tool_use_id":"t","content":{"image_url":%s}}`,
	`{"type":"tool_use","id":"t","name":"f","input":{},"image_url":%s}`,
	`{"x":{"type":"image_url","image_url":{"url":%s}}}`,
}

// holders are members by path that a part may stand in; %s stands for it.
var holders = map[string][]string{
	"/v1/chat/completions": {
		`"messages":[{"role":"user","content":[%s]}]`, `"messages":[{"role":"system","content":[{"type":"text","text":"a"},%s]}]`,
		`"messages":[{"role":"assistant","content":[%s]}]`, `"messages":[{"role":"tool","content":[%s]}]`, `"messages":[{"role":"user","content":"a","Content":[%s]}]`,
		`"messages":[{"role":"user","content":"a","x":%s}]`, `"messages":[{"role":"user","content":"a"}],"x":[%s]`,
		`"messages":[{"role":"user","content":"a"}],"documents":[%s]`, `"messages":[{"role":"user","content":"a"}],"mm_processor_kwargs":%s`,
		`"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"style":%s}`, `"messages":[{"role":"user","content":"a"}],"tools":[%s]`,
	},
	"/v1/completions": {`"prompt":"a","x":%s`, `"prompt":"a","documents":[%s]`, `"prompt":"a","input":[{"content":[%s]}]`, `"prompt":"a","mm_processor_kwargs":[%s]`},
	"/v1/embeddings":  {`"input":[%s]`, `"input":%s`, `"messages":[{"role":"user","content":[%s]}]`},
	"/v1/responses": {
		`"input":[{"role":"user","content":[%s]}]`, `"input":[%s]`, `"input":[{"type":"function_call_output","call_id":"c","output":[%s]}]`,
		`"input":[{"type":"message","role":"user","content":%s}]`, `"instructions":[%s]`, `"tools":[%s]`,
	},
	"/v1/messages": {`"messages":[{"role":"user","content":[%s]}]`, `"system":[%s],"messages":[]`, `"tools":[%s]`},
	"/tokenize":    {`"messages":[{"role":"user","content":[%s]}]`},
	"/v1/rerank":   {`"query":{"content":[%s]},"documents":["a"]`, `"query":"a","documents":[%s]`, `"query":"a","documents":{"content":[%s]}`, `"query":"a","documents":[{"content":[%s]}]`},
	"/v1/score": {
		`"text_1":%s,"text_2":["b"]`, `"text_1":"a","text_2":[%s]`, `"text_1":"a","text_2":{"content":[%s]}`, `"data_1":{"content":[%s]},"data_2":"b"`, `"data_1":"a","data_2":[%s]`,
		`"queries":[%s],"documents":["a"]`, `"queries":"a","documents":{"content":[%s]}`, `"queries":"a","items":[%s]`,
	},
	"/pooling": {`"data":%s`, `"data":{"data":%s}`, `"input":[[%s]]`},
}

func TestNoAddressPassesInAnyFormOnAnyPath(t *testing.T) {
	for path, scan := range scanners {
		for _, holder := range holders[path] {
			for i, form := range forms {
				for j, address := range addresses {
					if testing.Short() && (i+j)%8 > 0 {
						continue
					}
					body := `{"model":"m",` + fmt.Sprintf(holder, fmt.Sprintf(form, address)) + `}`
					for name, lim := range map[string]Limits{"by default": DefaultLimits(), "where all is allowed": allowAll()} {
						err := scan([]byte(body), lim)
						if err == nil {
							t.Errorf("%s, %s: passes: %s", path, name, body)
						} else if e, ok := errors.AsType[*RequestError](err); !ok || e.Status != 400 || e.Param == "" || e.Code == "invalid_json" || e.Code == "duplicate_key" {
							t.Errorf("%s: %s: %v", path, body, err)
						}
					}
				}
			}
		}
	}
}

func TestWhatIsRefusedOfAPartIsSaidWithFieldAndOffset(t *testing.T) {
	for body, want := range map[string]string{
		`{"type":"text","uuid":"1","image_url":"http://x"}`: `messages[0].content[1].uuid (at byte 102) is no key of a content part.`,
		`{"text":"a"}`: `messages[0].content[1] (at byte 93) is a content part without a type.`,
		`{"type":"refusal","video_url":"data:video/mp4;base64,AAAA"}`:        `messages[0].content[1] (at byte 140) is a content part of type "refusal", which has no "video_url".`,
		`{"type":"file","text":"a"}`:                                         `messages[0].content[1] (at byte 107) is a content part of type "file", which this gateway does not accept.`,
		`{"type":"image_url","image_url":{"url":"file:/etc/passwd"}}`:        `messages[0].content[1].image_url.url (at byte 138) must be a data: URI (data:image/TYPE;base64,…): a URL to be fetched is not accepted by this gateway.`,
		`{"type":"image_url","image_url":"data:image/png;base64,AAAA"}`:      `messages[0].content[1] (at byte 142) is a content part of type "image_url", which this gateway does not accept.`,
		`{"type":"text","text":["a"]}`:                                       `messages[0].content[1].text (at byte 102) must not be an array.`,
		`{"type":"image","source":{"type":"url","url":"http://x"}}`:          `messages[0].content[1].source.type (at byte 119) must be base64, text or content: a URL to be fetched is not accepted by this gateway.`,
		`{"type":"input_audio","input_audio":{"data":"a:b","format":"a"}}`:   `messages[0].content[1].input_audio.data (at byte 130) must be base64.`,
		`{"type":"text","text":"a","` + strings.Repeat("k", 100) + `":true}`: `messages[0].content[1].` + strings.Repeat("k", 64) + `… (at byte 209) is no key of a content part.`,
	} {
		_, err := Scan(Chat, []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"},   `+body+`]}]}`), DefaultLimits())
		if err == nil || err.Error() != want {
			t.Errorf("%s\ngot  %v\nwant %s", body, err, want)
		}
	}
}

// mediaParts are parts with media, by the type that a route lists.
var mediaParts = map[string]string{
	"image_url":   `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA","detail":"low"}}`,
	"input_image": `{"type":"input_image","image_url":"data:image/jpeg;base64,AAAA","detail":"auto"}`,
	"audio_url":   `{"type":"audio_url","audio_url":{"url":"data:audio/x-wav;base64,AAAA"}}`,
	"video_url":   `{"type":"video_url","video_url":{"url":"data:video/mp4;base64,AAAA"}}`,
	"input_audio": `{"type":"input_audio","input_audio":{"data":"//uQx+A=","format":"mp3"}}`,
	"image":       `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"},"cache_control":{"type":"ephemeral"}}`,
}

func TestMediaOfTheTypesThatTheRouteListsPass(t *testing.T) {
	for typ, p := range PartTypes {
		if part, ok := mediaParts[typ]; ok != p.Media {
			t.Errorf("%s: media %v, but the test has %q", typ, p.Media, part)
		}
	}
	for typ, part := range mediaParts {
		lim := DefaultLimits()
		lim.Allow = func(model string) []string { return map[string][]string{"m": {typ}}[model] }
		for path, holder := range map[string]string{
			"/v1/chat/completions": `"messages":[{"role":"user","content":[{"type":"text","text":"a"},%s]}]`,
			"/v1/responses":        `"input":[{"role":"user","content":[%s]}]`,
			"/v1/messages":         `"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[%s]}]}]`,
			"/v1/embeddings":       `"messages":[{"role":"user","content":[%s]}]`,
			"/v1/rerank":           `"query":"a","documents":{"content":[%s]}`,
		} {
			body := `"model":"m",` + fmt.Sprintf(holder, part) + `}`
			if err := scanners[path]([]byte("{"+body), lim); err != nil {
				t.Errorf("%s on %s: %v", typ, path, err)
			}
			other := strings.Replace(body, `"m"`, `"other"`, 1)
			err := scanners[path]([]byte("{"+other), lim)
			if e, ok := errors.AsType[*RequestError](err); !ok || !strings.Contains(e.Param, "[0]") || !strings.Contains(e.Message, `"`+typ+`"`) {
				t.Errorf("%s on %s of a route that does not list it: %v", typ, path, err)
			}
		}
	}
}

func TestWhatOrdinaryClientsSendPasses(t *testing.T) {
	const tool = `{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"url":{"type":"string","default":"http://x"},"image":{"enum":["a"]}}}}}`
	for path, bodies := range map[string][]string{
		"/v1/chat/completions": {
			`"messages":[{"role":"user","content":[{"type":"text","text":"see http://x","cache_control":{"type":"ephemeral"}}]}],"tools":[` + tool + `],"metadata":{"url":"http://x"}`,
			`"messages":[{"role":"assistant","content":null,"refusal":null,"audio":null,"annotations":[{"type":"url_citation","url_citation":{"url":"http://x"}}],
				"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"url\":\"http://x\"}"}}]},{"role":"tool","tool_call_id":"c","content":"http://x"}]`,
			`"messages":[{"role":"assistant","content":"{}","refusal":null,"parsed":{"url":"http://x","image":"a"}},
				{"role":"user","content":[{"type":"text","text":"a","image_url":null,"input_audio":null,"file":null,"uuid":null,"name":null}]}]`,
			`"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function","function":{"name":"f","parameters":{},
				"returns":{"properties":{"url":{"type":"string"}}},"inputSchema":{"properties":{"image":{"type":"string"}}}}}]`,
			`"messages":[{"role":"user","content":"a","name":"n"}],"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"url":{"const":"http://x"}}}}}`,
			`"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{"enable_thinking":false,"thinking":true,"thinking_budget":512,"reasoning_effort":"low"},"reasoning_effort":"low"`,
		},
		"/v1/completions": {`"prompt":"see http://x"`, `"prompt":["a","http://x"]`, `"prompt":[[1,2],[3]]`},
		"/v1/embeddings":  {`"input":"http://x"`, `"input":["http://x","b"]`, `"input":[1,2]`, `"input":"a","encoding_format":"float"`},
		"/v1/responses": {
			`"input":"http://x","tools":[{"type":"function","name":"f","parameters":{"properties":{"url":{"default":"http://x"}}}}],"text":{"format":{"type":"json_schema","schema":{"url":"http://x"}}}`,
			`"input":[{"role":"user","content":"a"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"b","annotations":[{"url":"http://x"}],"logprobs":[]}]},
				{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"c"}],"content":[{"type":"reasoning_text","text":"d"}],"encrypted_content":null},
				{"type":"function_call","call_id":"c","name":"f","arguments":"{\"url\":\"http://x\"}"},{"type":"function_call_output","call_id":"c","output":"http://x"}],
				"store":false,"background":false,"previous_response_id":null,"metadata":{"source_url":"http://x"}`,
		},
		"/v1/messages": {
			`"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}],"max_tokens":9,"metadata":{"user_id":"u"},
				"tools":[{"name":"f","input_schema":{"properties":{"url":{"description":"http://x"}}},"input_examples":[{"url":"http://x"}]}],
				"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b"},{"type":"tool_use","id":"t","name":"f","input":{"url":"http://x"}}]},
				{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"http://x","is_error":false},{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"b"}]}]}]`,
		},
		"/tokenize":  {`"prompt":"http://x"`, `"messages":[{"role":"user","content":"a"}],"tools":[` + tool + `]`},
		"/v1/rerank": {`"query":"a","documents":["http://x","b"]`, `"query":"a","documents":[{"text":"b","title":"t"}]`},
		"/v1/score":  {`"text_1":"a","text_2":["http://x"]`, `"queries":"a","documents":["b"]`},
	} {
		for _, body := range bodies {
			if err := scanners[path]([]byte(`{"model":"m",`+body+`}`), DefaultLimits()); err != nil {
				t.Errorf("%s: %v: %s", path, err, body)
			}
		}
	}
}

func TestAskingOftenIsLittleWork(t *testing.T) {
	const times, maximum = 5000, 8 // allocations for each
	var kwargs strings.Builder
	for i := range times {
		fmt.Fprintf(&kwargs, `"k%d":1,`, i)
	}
	for name, members := range map[string]string{
		"parts": `"messages":[{"role":"user","content":[{"type":"text","text":"a"}` +
			strings.Repeat(`,{"type":"image_url","image_url":"data:image/png;base64,"}`, times) + `]}]`,
		"arguments": `"messages":[{"role":"user","content":"a"}],"chat_template_kwargs":{` + kwargs.String() + `"style":1}`,
	} {
		body := []byte(`{"model":"m",` + members + `}`)
		for path, scan := range map[string]func([]byte, Limits) error{"a chat": scanners[Chat.Path()], "messages": scanners["/v1/messages"]} {
			if got := testing.AllocsPerRun(1, func() { _ = scan(body, allowAll()) }); got > times*maximum {
				t.Errorf("%d %s in %s: %.0f allocations", times, name, path, got)
			}
		}
	}
}

func TestEachKeyOfAPartIsJudgedInSomeWay(t *testing.T) {
	for typ, p := range PartTypes {
		for _, key := range p.Keys {
			if _, ok := partKeys[key]; !ok || len(p.Keys) >= maxPartKeys {
				t.Errorf("%s: how %q is judged is not said", typ, key)
			}
		}
	}
}

// FuzzNoAddressPasses reads what the scans let pass as Python would, member by member, and finds no address: every
// string under a name of media is a data: URI of media, or stands where no engine looks.
func FuzzNoAddressPasses(f *testing.F) {
	paths := []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/score", "/v1/rerank", "/v1/embeddings", "/pooling"}
	for i, path := range paths {
		for j, holder := range holders[path] {
			for k, form := range forms {
				if (j+k)%4 == 0 {
					f.Add(uint8(i), []byte(`{"model":"m",`+fmt.Sprintf(holder, fmt.Sprintf(form, addresses[(j+k)%len(addresses)]))+`}`))
				}
			}
			for _, part := range mediaParts {
				f.Add(uint8(i), []byte(`{"model":"m",`+fmt.Sprintf(holder, part)+`}`))
			}
		}
	}
	f.Fuzz(func(t *testing.T, at uint8, body []byte) {
		path := paths[int(at)%len(paths)]
		if err := scanners[path](body, allowAll()); err != nil {
			if _, ok := errors.AsType[*RequestError](err); !ok {
				t.Fatalf("%s: %v", body, err)
			}
			return
		}
		var request map[string]any
		if err := json.Unmarshal(body, &request); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		for name, value := range request {
			_, constrains := topModes[name]
			if constrains || name == "stream_options" || LookupFieldIn(path, name).Verdict == FieldStripped {
				continue
			}
			naive(t, name, value, name == "tools" || name == "functions")
		}
	})
}

// naive finds addresses in a value that stands under a name.
func naive(t *testing.T, name string, value any, tools bool) {
	switch v := value.(type) {
	case []any:
		for _, e := range v {
			naive(t, name, e, tools)
		}
	case map[string]any:
		typ, _ := v["type"].(string)
		for key, e := range v {
			switch {
			case key == "tool_calls" || key == "function_call" || key == "arguments" || key == "annotations" || key == "parsed":
			case key == "citations" || key == "cache_control" || key == "logprobs", typ == "tool_use" && key == "input", typ == "redacted_thinking" && key == "data":
			case tools && (key == "function" || key == "parameters" || key == "schema" || key == "format"),
				tools && (key == "input_examples" || strings.HasSuffix(key, "put_schema")):
			case key == "source" && typ != "image": // of something else, such as a document
				naive(t, "", e, tools)
			case fetched(name) && (key == "detail" || key == "format" || key == "url"), name == "source" && (key == "type" || key == "media_type"):
				if key == "url" {
					naive(t, key, e, tools)
				}
			case fetched(name) && key != "data" && name != "data":
				t.Fatalf("%s holds %s", name, key)
			case name == "input_audio" || name == "source":
				if data, ok := e.(string); !ok || strings.ContainsAny(data, ":. \t\n") {
					t.Fatalf("%s.%s is %v", name, key, e)
				}
			default:
				naive(t, key, e, tools)
			}
		}
	case string:
		if fetched(name) && v != "" && !strings.HasPrefix(v, "data:image/") && !strings.HasPrefix(v, "data:audio/") && !strings.HasPrefix(v, "data:video/") {
			t.Fatalf("%s is %q", name, v)
		}
	}
}

// fetched reports whether some engine fetches or opens what stands under a name.
func fetched(name string) bool {
	switch name {
	case "url", "urls", "image_url", "audio_url", "video_url", "file_url", "server_url", "image", "audio", "video", "file", "images", "videos", "audios",
		"input_audio", "image_data", "audio_data", "video_data", "file_data", "data", "image_embeds", "audio_embeds", "image_pil", "uri", "file_uri":
		return true
	}
	return false
}
