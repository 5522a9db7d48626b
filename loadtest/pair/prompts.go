package pair

import "fmt"

// The classes of prompts.
const (
	classChat = "chat"
	classCode = "code"
)

// prompt is one question.
type prompt struct{ class, text string }

var subjects = []string{
	"the tides", "a hash table", "bread", "the French Revolution", "vaccines", "a bicycle's gears", "inflation", "photosynthesis",
	"black holes", "the violin", "a load balancer", "chess openings", "earthquakes", "compound interest", "the printing press",
}

// Each form makes one question of each subject, so that there are as many different prompts as [MaxRequests].
var chatForms = []string{
	"Explain %s to a child in three sentences.",
	"List five facts about %s.",
	"Why does %s matter? Answer in one paragraph.",
	"What is the most common mistake people make about %s?",
	"Write a short poem about %s.",
}

var codeForms = []string{
	"Write a Python function with a docstring that models %s.",
	"Write a SQL schema of three tables for a database about %s.",
	"Write a Go struct with JSON tags that describes %s, and a function that prints it.",
	"Write a JSON document that describes %s with ten fields.",
	"Write a shell script that downloads a page about %s and counts its words.",
}

// prompts returns the first n questions, n at most [MaxRequests]: chat and code in turns.
func prompts(n int) []prompt {
	all := make([]prompt, n)
	for i := range all {
		class, forms := classChat, chatForms
		if i%2 == 1 {
			class, forms = classCode, codeForms
		}
		k := i / 2
		all[i] = prompt{class, fmt.Sprintf(forms[(k+k/len(subjects))%len(forms)], subjects[k%len(subjects)])}
	}
	return all
}
