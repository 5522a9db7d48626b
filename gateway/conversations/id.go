package conversations

import "strings"

// What begins the ids of responses and of conversations where clients see them.
const (
	ResponsePrefix     = "resp_"
	ConversationPrefix = "conv_"
)

// ID names a response by its own id and that of the first response of its conversation, or a conversation by the latter alone.
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

// IsConversation reports whether the id is that of a conversation.
func (id ID) IsConversation() bool { return id.own == "" }

// String is the id without a prefix: the first response's, and a conversation's, is that of the first request alone.
func (id ID) String() string {
	if id.IsConversation() || id.root == id.own {
		return id.root
	}
	return id.root + "_" + id.own
}

// ParseID reads an id as [ID.String] writes it, with a prefix or, for a response, without. Whether there is such a response is not
// known by that.
func ParseID(s string) (id ID, ok bool) {
	if root, named := strings.CutPrefix(s, ConversationPrefix); named {
		return ID{root: root}, isID(root)
	}
	root, own, later := strings.Cut(strings.TrimPrefix(s, ResponsePrefix), "_")
	if !later {
		own = root
	}
	return ID{root, own}, isID(root) && isID(own) && later == (root != own)
}

func isID(s string) bool { return len(s) == idLen && strings.Trim(s, "0123456789abcdef") == "" }
