package fields

import (
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of a JSON value, as jsontext writes it: its first character, with 't' for both booleans.
type Kind byte

// TemplateKwargs are the arguments of the chat template that every client may send, with the kinds of their
// values: the switches of reasoning models.
var TemplateKwargs = map[string]Kind{
	"enable_thinking":  't', // Qwen, GLM, and many more
	"thinking":         't', // DeepSeek, Granite
	"thinking_budget":  '0', // Seed
	"reasoning_effort": '"', // gpt-oss
}

// forbiddenKwargs are the arguments that the engine itself passes to the function that applies the template.
var forbiddenKwargs = []string{
	"chat_template", "conversation", "messages", "documents", "tools", "tokenize", "tokenizer", "tokenizer_kwargs",
	"processor_kwargs", "padding", "truncation", "max_length", "return_tensors", "return_dict", "return_assistant_tokens_mask",
	"add_generation_prompt", "continue_final_message", "load_audio_from_video", "model_config",
}

// KwargForbidden reports whether no route can allow a member of [Kwargs].
func KwargForbidden(name string) bool { return slices.Contains(forbiddenKwargs, name) }

// Allowable returns nil for an entry that a route may list in allow_fields: a refused field, a type of
// content part with media, or chat_template_kwargs.NAME. The error says why any other entry may not be
// listed.
func Allowable(entry string) error {
	if name, ok := strings.CutPrefix(entry, Kwargs+"."); ok {
		return kwargAllowable(name)
	}
	f, known := byName[entry]
	switch {
	case entry == Kwargs:
		return fmt.Errorf("list the arguments one by one, such as %s.custom_instructions; %s needs no entry", Kwargs, "enable_thinking")
	case known && f.Verdict == Refused, Parts[entry].Media:
		return nil
	case known && f.Verdict == Stripped:
		return fmt.Errorf("%s can never be allowed: it %s (%s), so it is always removed", entry, f.Effect, f.Engines)
	case known && f.Verdict == Target:
		return fmt.Errorf("%s needs no entry: every route sends it to the target, where it %s (%s)", entry, f.Effect, f.Engines)
	case known:
		return fmt.Errorf("%s can never be allowed: it %s (%s)", entry, f.Effect, f.Engines)
	}
	return fmt.Errorf("this is no field that is refused; those that may be listed are %s, and %s.NAME", strings.Join(Allowed(), ", "), Kwargs)
}

func kwargAllowable(name string) error {
	_, found := TemplateKwargs[name]
	switch {
	case name == "" || len(name) > 64 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "":
		return fmt.Errorf("want %s.NAME with a NAME of 1–64 of A-Z a-z 0-9 _", Kwargs)
	case KwargForbidden(name):
		return fmt.Errorf("%s.%s can never be allowed: it is an argument of the engine's own, which changes more than the template's text",
			Kwargs, name)
	case found:
		return fmt.Errorf("%s.%s is accepted on every route; remove it", Kwargs, name)
	}
	return nil
}

// Allowed returns the fields and types of content parts that a route may list, sorted, without members of
// [Kwargs].
func Allowed() []string {
	var names []string
	for _, f := range Table {
		if f.Verdict == Refused && f.Name != Kwargs {
			names = append(names, f.Name)
		}
	}
	for typ, p := range Parts {
		if p.Media {
			names = append(names, typ)
		}
	}
	slices.Sort(names)
	return names
}
