package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/foregate/foregate/internal/golden"
)

// budgetFile has a line for each package: its lines of Go without tests, comments included. A number only falls:
// `go test ./cmd/foregate -run Budget -update` lowers the numbers and drops packages that are gone. Whoever needs
// a higher number, or a new package, edits the file and writes the reason behind it.
const budgetFile = "testdata/budgets.txt"

// slack is how many lines a package may have below its budget before the budget must be lowered.
const slack = 60

// linesByPackage counts the lines of Go without tests of each package of the module.
func linesByPackage(t *testing.T) map[string]int {
	t.Helper()
	lines := map[string]int{}
	eachPath(t, func(dir, path string) error {
		text, err := os.ReadFile(path)
		lines[dir] += strings.Count(string(text), "\n")
		return err
	})
	return lines
}

// budget is what one line of the file allows: a number of lines, and why it was raised, if it was.
type budget struct {
	lines  int
	reason string
}

// readBudgets parses the file: `PACKAGE LINES [REASON]` on each line; # begins a comment.
func readBudgets(t *testing.T) (header string, budgets map[string]budget) {
	t.Helper()
	text, err := os.ReadFile(budgetFile)
	if err != nil {
		t.Fatal(err)
	}
	budgets = map[string]budget{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			header += line + "\n"
			continue
		}
		dir, rest, _ := strings.Cut(line, " ")
		number, reason, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
		n, err := strconv.Atoi(number)
		if _, twice := budgets[dir]; err != nil || dir == "" || twice {
			t.Fatalf("%s:%d: %q is not PACKAGE LINES [REASON], or the package stands there twice", budgetFile, i+1, line)
		}
		budgets[dir] = budget{n, strings.TrimSpace(reason)}
	}
	return header, budgets
}

// TestPackagesStayWithinTheirBudgets holds each package to its lines, and their number to those in the file.
func TestPackagesStayWithinTheirBudgets(t *testing.T) {
	header, budgets := readBudgets(t)
	lines := linesByPackage(t)
	if golden.Updating() {
		lowerBudgets(t, header, budgets, lines)
		return
	}
	for dir, n := range lines {
		allowed, known := budgets[dir]
		switch {
		case !known:
			t.Errorf("%s is a new package (%d lines): fold it into another, or add it to %s with the reason", dir, n, budgetFile)
		case n > allowed.lines:
			t.Errorf("%s has %d lines, %d more than its budget: remove something, or raise the number in %s with the reason", dir, n, n-allowed.lines, budgetFile)
		case n < allowed.lines-slack:
			t.Errorf("%s has %d lines, its budget is %d: lower it by go test ./cmd/foregate -run Budget -update", dir, n, allowed.lines)
		}
	}
	for dir := range budgets {
		if lines[dir] == 0 {
			t.Errorf("%s has a budget and does not exist: go test ./cmd/foregate -run Budget -update", dir)
		}
	}
}

// lowerBudgets writes the file again: numbers that are lower now, without packages that are gone. It raises nothing.
func lowerBudgets(t *testing.T, header string, budgets map[string]budget, lines map[string]int) {
	t.Helper()
	var b strings.Builder
	b.WriteString(header)
	for _, dir := range slices.SortedFunc(maps.Keys(budgets), cmp.Compare[string]) {
		if n := lines[dir]; n > 0 {
			fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s %d %s", dir, min(n, budgets[dir].lines), budgets[dir].reason)))
		}
	}
	if err := os.WriteFile(budgetFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
