package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// inputs are what a request to each path needs beside its model.
var inputs = map[string]string{
	"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}]`,
	"/v1/completions":      `"prompt":"a"`,
	"/v1/responses":        `"input":"a"`,
	"/v1/score":            `"text_1":"a","text_2":"b"`,
}

// sent is what goes to an engine of a request to a path.
func sent(path string, body []byte, lim Limits) (map[string]json.RawMessage, error) {
	var out []byte
	switch path {
	case Chat.Path(), Completion.Path():
		kind := Chat
		if path == Completion.Path() {
			kind = Completion
		}
		r, err := Scan(kind, body, lim)
		if err != nil {
			return nil, err
		}
		out = r.Apply(nil, Edit{"model", Quote("engine's")})
	default:
		e, err := Peek(path, body, lim)
		if err != nil {
			return nil, err
		}
		out = e.Apply(nil, SetText("model", "engine's"))
	}
	var got map[string]json.RawMessage
	return got, json.Unmarshal(out, &got)
}

func TestEachFieldOfTheTableHasItsVerdictOnEveryPath(t *testing.T) {
	for path, input := range inputs {
		for _, f := range FieldTable {
			if f.Verdict <= FieldTarget || LookupFieldIn(path, f.Name).Verdict != f.Verdict {
				continue
			}
			listed := DefaultLimits()
			listed.Allow = func(string) []string { return []string{f.Name} }
			escaped := fmt.Sprintf(`\u%04x%s`, f.Name[0], f.Name[1:])
			for _, value := range []string{`"x"`, `1`, `true`, `[1]`, `[["x"]]`, `{"a":1}`} {
				for _, name := range []string{f.Name, escaped} {
					body := []byte(`{"` + name + `":` + value + `,"model":"m",` + input + `,"kept":1}`)
					got, err := sent(path, body, DefaultLimits())
					refused, isRefusal := errors.AsType[*RequestError](err)
					switch {
					case f.Verdict == FieldStripped:
						if _, there := got[f.Name]; err != nil || there || string(got["kept"]) != "1" {
							t.Errorf("%s: %s: %v, %s", path, body, err, got)
						}
						continue
					case !isRefusal || !strings.HasPrefix(refused.Param, f.Name) || refused.Status != 400 || refused.Code != "unsupported_parameter":
						t.Errorf("%s: %s: %v", path, body, err)
					}
					got, err = sent(path, body, listed)
					if allowed := f.Verdict == FieldRefused && f.Name != Kwargs; allowed != (err == nil) || allowed && string(got[f.Name]) != value {
						t.Errorf("%s, on a route that lists it: %s: %v, %s", path, body, err, got)
					}
				}
			}
			for _, nothing := range []string{`null`, `false`, `""`, `[]`, `{}`} {
				body := []byte(`{"model":"m",` + input + `,"` + f.Name + `":` + nothing + `}`)
				got, err := sent(path, body, DefaultLimits())
				if _, there := got[f.Name]; err != nil || there {
					t.Errorf("%s: %s asks for nothing: %v, %s", path, body, err, got)
				}
			}
		}
	}
}

func TestSamplingParametersOfAnEnginesOwnPathAreJudgedLikeTheRequest(t *testing.T) {
	for _, f := range FieldTable {
		if f.Verdict <= FieldTarget || f.Name == Kwargs {
			continue
		}
		listed := DefaultLimits()
		listed.Allow = func(string) []string { return []string{f.Name} }
		escaped := fmt.Sprintf(`\u%04x%s`, f.Name[0], f.Name[1:])
		for _, form := range []string{`{"top_p":1,"%s":[1]}`, `[{"top_p":1},{"%s":[1]}]`, `[{"%s":[1]},{"top_p":1}]`, `[[{"%s":[1]}]]`} {
			for _, name := range []string{f.Name, escaped} {
				body := []byte(`{"model":"m","text":"a","sampling_params":` + fmt.Sprintf(form, name) + `}`)
				_, err := Peek("/generate", body, DefaultLimits())
				refused, isRefusal := errors.AsType[*RequestError](err)
				if !isRefusal || refused.Param != f.Name || refused.Code != "unsupported_parameter" {
					t.Errorf("%s: %v", body, err)
				}
				if _, err = Peek("/generate", body, listed); (err == nil) != (f.Verdict == FieldRefused) {
					t.Errorf("%s, listed: %v", body, err)
				}
			}
		}
	}
}

func TestArgumentsOfTheTemplateAreJudgedOneByOne(t *testing.T) {
	lim := DefaultLimits()
	lim.Allow = func(string) []string { return []string{Kwargs + ".style", Kwargs + ".tokenize"} }
	for kwargs, param := range map[string]string{
		`{"enable_thinking":true}`:                        "",
		`{"enable_thinking":false,"thinking":true}`:       "",
		`{"thinking_budget":0,"reasoning_effort":"high"}`: "",
		`{"style":{"a":[1]}}`:                             "",
		`{}`:                                              "",
		`{"enable_thinking":1}`:                           "chat_template_kwargs.enable_thinking",
		`{"enable_thinking":null}`:                        "chat_template_kwargs.enable_thinking",
		`{"thinking_budget":"{{ 1 }}"}`:                   "chat_template_kwargs.thinking_budget",
		`{"style":1,"other":1}`:                           "chat_template_kwargs.other",
		`{"tokenize":true}`:                               "chat_template_kwargs.tokenize", // though listed
		`{"ch\u0061t_template":"x"}`:                      "chat_template_kwargs.chat_template",
		`{"Enable_Thinking":true}`:                        "chat_template_kwargs.Enable_Thinking",
		`{"style":{"image_url":"http://x"}}`:              "chat_template_kwargs.style.image_url",
		`["enable_thinking"]`:                             "chat_template_kwargs",
	} {
		for path, input := range inputs {
			got, err := sent(path, []byte(`{"model":"m",`+input+`,"chat_template_kwargs":`+kwargs+`}`), lim)
			refused, _ := errors.AsType[*RequestError](err)
			switch {
			case param == "" && (err != nil || kwargs != "{}" && string(got[Kwargs]) != kwargs):
				t.Errorf("%s: %s: %v, %s", path, kwargs, err, got)
			case param != "" && (refused == nil || refused.Param != param):
				t.Errorf("%s: %s: %v", path, kwargs, err)
			}
		}
	}
}

func TestWhatOnlyTheTargetCanServeKeepsTheRequestFromTheDraft(t *testing.T) {
	for field, want := range map[string]string{
		`"chat_template_kwargs":{"enable_thinking":false}`:              "",
		`"chat_template_kwargs":{}`:                                     "",
		`"documents":[{"text":"a"}]`:                                    "extras",
		`"echo":true`:                                                   "extras, shows",
		`"echo":false`:                                                  "",
		`"watermarking":true`:                                           "extras",
		`"watermarking":false`:                                          "",
		`"truncate_prompt_tokens":9`:                                    "extras",
		`"return_tokens_as_token_ids":true`:                             "extras, shows",
		`"top_k":3,"mirostat":2,"ignore_eos":true`:                      "",
		`"kv_transfer_params":{"a":1}`:                                  "",
		`"chat_template_kwargs":{"enable_thinking":true}`:               "extras",
		`"chat_template_kwargs":{"thinking":false,"thinking_budget":1}`: "extras",
	} {
		r, err := Scan(Chat, []byte(`{"model":"m",`+inputs[Chat.Path()]+`,`+field+`}`), allowAll())
		if err != nil {
			t.Errorf("%s: %v", field, err)
			continue
		}
		var got []string
		if r.Extras {
			got = append(got, "extras")
		}
		if r.shows {
			got = append(got, "shows")
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %s, want %s", field, got, want)
		}
	}
}

func TestMoreThanCanBeAskedForIsRefused(t *testing.T) {
	var b strings.Builder
	allow := make([]string, 0, 2*maxGatedFields)
	for i := range cap(allow) {
		fmt.Fprintf(&b, `"k%d":1,`, i)
		allow = append(allow, fmt.Sprintf("%s.k%d", Kwargs, i))
	}
	lim := DefaultLimits()
	lim.Allow = func(string) []string { return allow }
	_, err := Scan(Chat, []byte(`{"model":"m",`+inputs[Chat.Path()]+`,"chat_template_kwargs":{`+b.String()+`"style":1}}`), lim)
	if refused, _ := errors.AsType[*RequestError](err); refused == nil || refused.Code != "too_many_fields" {
		t.Errorf("got %v", err)
	}
}
