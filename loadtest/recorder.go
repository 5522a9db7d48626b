package loadtest

// Recorder gathers outcomes. It is safe for concurrent use.
type Recorder struct{}
