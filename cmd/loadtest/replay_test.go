package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var someReceipts = filepath.Join("..", "..", "loadtest", "replay", "testdata", "receipts.jsonl")

func TestReceiptsAreReplayedUnderOtherSettings(t *testing.T) {
	var out, complaints bytes.Buffer
	if code := run([]string{"replay", someReceipts, "--set", "speculation.threshold_nats=0.1"}, &out, &complaints); code != 0 {
		t.Fatalf("%d: %s", code, complaints.String())
	}
	if !strings.Contains(out.String(), "all routes: 28 requests") {
		t.Error(out.String())
	}
	out.Reset()
	if code := run([]string{"replay", someReceipts, "--json", "--set", "speculation.mode=off"}, &out, &complaints); code != 0 {
		t.Fatalf("%d: %s", code, complaints.String())
	}
	var told struct {
		Set  []string
		Rows []struct {
			Route   string
			Skipped struct{ Least int }
		}
	}
	if err := json.Unmarshal(out.Bytes(), &told); err != nil || len(told.Rows) != 3 || told.Rows[2].Skipped.Least != 28 {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestAReplayNamesWhatItCannotRead(t *testing.T) {
	good, err := os.ReadFile(someReceipts)
	if err != nil {
		t.Fatal(err)
	}
	file, empty := filepath.Join(t.TempDir(), "receipts"), filepath.Join(t.TempDir(), "empty")
	for path, text := range map[string][]byte{file: append([]byte("no receipt\n"), good...), empty: []byte("\n")} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"a bad line":         {[]string{file}, "line 1: no JSON object", 1},
		"no receipts":        {[]string{empty}, "there is no receipt in it", 1},
		"no file":            {[]string{file + "x"}, "no such file", 1},
		"an unknown setting": {[]string{file, "--set", "shed.low=1"}, "they can of speculation.mode", 2},
		"a bad value":        {[]string{file, "--set", "speculation.band_nats=-1"}, "out of range", 2},
	} {
		var out, complaints bytes.Buffer
		if code := run(append([]string{"replay"}, tc.args...), &out, &complaints); code != tc.code || !strings.Contains(complaints.String(), tc.want) {
			t.Errorf("%s: %d %q, want %d %q", name, code, complaints.String(), tc.code, tc.want)
		}
	}
}
