package config

import _ "embed" // of the table

// FieldTable describes all fields of the file in Markdown, for the reference: name, default and meaning, in the usual
// order. A name in capitals is chosen by the operator.
//
//go:embed fields.markdown
var FieldTable string
