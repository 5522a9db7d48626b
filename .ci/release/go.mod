// Builds the archives of a release, pinned apart from the program so that its dependencies stay out of go.mod.
module github.com/foregate/foregate/release

go 1.26.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	golang.org/x/mod v0.42.0
)
