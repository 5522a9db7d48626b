package openai

// wholeDraft is what a ChunkParser reads of a whole draft besides the chunk.
type wholeDraft struct {
	calls          []Call
	contentMembers int // number of members with content: message, text, delta
}

// readCalls reads the calls of a message, which are valid JSON, and reports whether it understood everything.
func (w *wholeDraft) readCalls(raw []byte) bool {
	in := borrowCursor(raw)
	defer in.release()
	if in.kind() != '[' || len(w.calls) > 0 {
		return false
	}
	for range in.array() {
		k, ok := readCall(in)
		if !ok || len(w.calls) == maxCalls {
			return false
		}
		w.calls = append(w.calls, k)
	}
	return in.err == nil
}

func readCall(in *cursor) (k Call, ok bool) {
	if in.kind() != '{' {
		return k, false
	}
	ok = true
	k.Type = "function"
	for quoted := range in.object() {
		switch string(quoted) {
		case "id":
			ok = readWord(in, &k.ID) && ok
		case "type":
			ok = readWord(in, &k.Type) && ok && k.Type == "function"
		case "function":
			ok = readFunction(in, &k) && ok
		case "index":
			in.skip()
		default:
			raw, _ := in.value()
			ok = ok && harmless(raw)
		}
	}
	return k, ok && in.err == nil && k.ID != "" && k.Name != ""
}

func readFunction(in *cursor, k *Call) (ok bool) {
	if in.kind() != '{' {
		return false
	}
	ok = true
	for quoted := range in.object() {
		switch string(quoted) {
		case "name":
			ok = readWord(in, &k.Name) && ok
		case "arguments":
			ok = readWord(in, &k.Arguments) && ok
		default:
			raw, _ := in.value()
			ok = ok && harmless(raw)
		}
	}
	return ok
}

// readWord reads a string and reports whether it is one.
func readWord(in *cursor, into *string) bool {
	raw, _ := in.value()
	if len(raw) == 0 || raw[0] != '"' {
		return false
	}
	*into = string(unquote(nil, raw))
	return true
}
