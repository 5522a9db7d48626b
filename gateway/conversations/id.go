package conversations

import "strings"

// ResponsePrefix begins the ids of responses where clients see them.
const ResponsePrefix = "resp_"

// ID names a response by its own id and that of the first response of its conversation.
type ID struct{ root, own string }

// idLen is the length of the ids of requests: 16 bytes in hexadecimal.
const idLen = 32

// Next is the id of a response that goes on from another one; the zero ID is none. request is the id of its request.
func Next(after ID, request string) ID {
	if after.root == "" {
		return ID{request, request}
	}
	return ID{after.root, request}
}

// String is the id without a prefix: the first response's is that of its request alone.
func (id ID) String() string {
	if id.root == id.own {
		return id.root
	}
	return id.root + "_" + id.own
}

// ParseID reads an id as [ID.String] writes it, with a prefix or without. Whether there is such a response is not known by that.
func ParseID(s string) (id ID, ok bool) {
	root, own, later := strings.Cut(strings.TrimPrefix(s, ResponsePrefix), "_")
	if !later {
		own = root
	}
	return ID{root, own}, isID(root) && isID(own) && later == (root != own)
}

func isID(s string) bool { return len(s) == idLen && strings.Trim(s, "0123456789abcdef") == "" }
