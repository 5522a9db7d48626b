// Linters, pinned apart from the program so that their dependencies stay out of go.mod.
module github.com/foregate/foregate/lint

go 1.26
