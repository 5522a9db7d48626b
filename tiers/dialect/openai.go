package dialect

// openaiCompatible is a server of which nothing is known but that it speaks OpenAI's API.
var openaiCompatible = Dialect{Kind: OpenAI, Members: Members{Strict: true}, ContinueBy: ContinueByPrefill}
