package openai

// PromptText is the text of the request's prompt without JSON's escapes: for a chat the texts of its
// messages, one after the other. If it is longer than most bytes, it is the end.
func (r *Request) PromptText(maximum int) []byte {
	if r.Kind == Completion {
		return lastBytes(r.Text(), maximum)
	}
	var in cursor
	in.resetLenient(r.Raw("messages"))
	var out []byte
	for range in.array() {
		for name := range in.object() {
			switch {
			case string(name) != "content":
				in.skip()
			case in.kind() == '"':
				raw, _ := in.value()
				out = append(unquote(out, raw), '\n')
			default:
				out = partTexts(&in, out)
			}
		}
	}
	return lastBytes(out, maximum)
}

// partTexts appends the texts of a message's parts.
func partTexts(in *cursor, out []byte) []byte {
	for range in.array() {
		for name := range in.object() {
			is := string(name) == "text" && in.kind() == '"'
			raw, _ := in.value()
			if is && in.err == nil {
				out = append(unquote(out, raw), '\n')
			}
		}
	}
	return out
}

func lastBytes(text []byte, maximum int) []byte { return text[max(len(text)-maximum, 0):] }
