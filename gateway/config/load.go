package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxTokensPerSecond is far above what any backend makes.
const maxTokensPerSecond = 10_000_000

// MaxFile bounds a file of configuration or tenants, in bytes: far above any real one and far below what would hurt.
const MaxFile = 1 << 20

// Load reads and checks the file at path.
func Load(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// Parse checks data as a configuration file; name is what errors call it. The
// error holds every mistake, one per line, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	r := newReader(name, "pools and routes")
	root := r.document(data)
	if root == nil {
		return nil, r.err()
	}
	f := defaults()
	r.lines[""] = root.Line
	r.read("", root, layout(f))
	if root.Kind == yaml.MappingNode {
		r.check(f)
	}
	if len(r.problems) > 0 {
		return nil, r.err()
	}
	return f, nil
}

// document returns the root of the one document in data, or nil.
func (r *reader) document(data []byte) *yaml.Node {
	if len(data) > MaxFile {
		r.add(0, "", fmt.Sprintf("is larger than %d bytes, which no configuration is", MaxFile))
		return nil
	}
	var doc, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) || (err == nil && len(doc.Content) == 1 && empty(doc.Content[0])) {
		r.add(1, "", "the file is empty; it needs at least "+r.needs)
		return nil
	}
	if err == nil {
		err = d.Decode(&second)
	}
	switch {
	case errors.Is(err, io.EOF):
		return doc.Content[0]
	case err != nil:
		r.add(syntax(err, data))
	default:
		r.add(second.Line, "", "a second document begins here; a configuration is one document, so remove the --- between them")
	}
	return nil
}

func empty(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

// position is how the YAML library begins an error that has one.
var position = regexp.MustCompile(`^line (\d+): `)

// anchor is how the YAML library names an alias that stands for nothing.
var anchor = regexp.MustCompile(`unknown anchor '(.*)' referenced`)

// syntax tells what is not YAML. A value wrongly taken for an alias is not
// repeated: passwords may begin with an asterisk.
func syntax(err error, data []byte) (line int, path, text string) {
	text = strings.TrimPrefix(err.Error(), "yaml: ")
	if m := position.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1])
		text = text[len(m[0]):]
	}
	if line == 0 {
		line = lineOf(text, data)
	}
	if strings.Contains(text, "anchor") {
		text = "a value that begins with * or & stands for an anchor; put it in quotes"
	}
	return line, "", "not YAML (here or in the line before): " + text
}

// lineOf finds the line of an error that tells none: the library tells neither
// where an alias stands nor which byte is no text, and leaves out line 1.
func lineOf(text string, data []byte) int {
	at := bytes.IndexFunc(data, func(c rune) bool { return c == utf8.RuneError || (c < ' ' && !strings.ContainsRune("\t\r\n", c)) })
	switch m := anchor.FindStringSubmatch(text); {
	case m != nil:
		at = bytes.Index(data, []byte("*"+m[1]))
	case !strings.Contains(text, "UTF-8") && !strings.Contains(text, "control characters"):
		return 1
	}
	return 1 + bytes.Count(data[:max(at, 0)], []byte("\n"))
}

// defaults is the file in which nothing is given.
func defaults() *File {
	return &File{
		Listen:   ":8080",
		Admin:    "127.0.0.1:9090",
		Redis:    Redis{URL: "none", Replicas: 1},
		Cache:    Cache{LocalBytes: 32 << 20},
		Identity: Identity{DefaultTenant: Tenant{MaxPriority: "normal"}},
		Pools:    map[string]Pool{},
		Passthrough: []string{
			"/v1/embeddings", "/v1/responses", "/tokenize", "/detokenize", "/v1/rerank", "/v1/score",
		},
		Limits: Limits{BodyBytes: 4 << 20, ResponseBytes: 16 << 20, InFlight: 4096, HeaderBytes: 16 << 10},
		Drain:  Drain{Delay: 5 * time.Second, Grace: 25 * time.Second},

		Tracing: Tracing{Sample: defaultSample},
	}
}

// layout says which field of the file goes where.
func layout(f *File) value {
	return group(map[string]value{
		"listen": text(&f.Listen),
		"admin":  text(&f.Admin),

		"admin_tokens_file": text(&f.AdminTokensFile),
		"redis":             redis(&f.Redis),
		"cache": group(map[string]value{
			"seal_keys_file": text(&f.Cache.SealKeysFile),
			"local_bytes":    size(&f.Cache.LocalBytes, 0, 16<<30),
		}),
		"identity": group(map[string]value{
			"mode":              text(&f.Identity.Mode),
			"trusted_proxies":   texts(&f.Identity.TrustedProxies),
			"signing_keys_file": text(&f.Identity.SigningKeysFile),
			"unlisted_tenants":  text(&f.Identity.UnlistedTenants),
			"default_tenant":    group(limitsOf(&f.Identity.DefaultTenant)),
			"jwt": group(map[string]value{
				"issuer":         text(&f.Identity.JWT.Issuer),
				"audience":       text(&f.Identity.JWT.Audience),
				"jwks_file":      text(&f.Identity.JWT.JWKSFile),
				"algorithms":     texts(&f.Identity.JWT.Algorithms),
				"tenant_claim":   text(&f.Identity.JWT.TenantClaim),
				"priority_claim": text(&f.Identity.JWT.PriorityClaim),
			}),
		}),
		"pools":        pools(f),
		"routes":       list(func(r *reader, _ int, path string, n *yaml.Node) { f.Routes = append(f.Routes, readRoute(r, path, n)) }),
		"tenants":      tenants(&f.Tenants),
		"tenants_file": text(&f.TenantsFile),
		"passthrough":  texts(&f.Passthrough),
		"limits": group(map[string]value{
			"body_bytes":     size(&f.Limits.BodyBytes, 1<<10, 1<<30),
			"response_bytes": size(&f.Limits.ResponseBytes, 1<<10, 1<<30),
			"in_flight":      whole(&f.Limits.InFlight, 1, 1_000_000),
			"header_bytes":   headerSize(&f.Limits.HeaderBytes),

			"connections":             whole(&f.Limits.Connections, minConnections, maxConnections),
			"connections_per_address": whole(&f.Limits.ConnectionsPerAddress, 1, maxConnections),
			"balancers":               texts(&f.Limits.Balancers),
		}),
		"drain": group(map[string]value{
			"delay": span(&f.Drain.Delay, 10*time.Minute),
			"grace": span(&f.Drain.Grace, time.Hour),
		}),
		"tracing": tracing(&f.Tracing),
	})
}

// redis says which field of a Redis goes where.
func redis(to *Redis) value {
	return group(map[string]value{
		"url":               text(&to.URL),
		"cache_url":         text(&to.CacheURL),
		"settings_url":      text(&to.SettingsURL),
		"replicas":          whole(&to.Replicas, 1, 1000),
		"ca_file":           text(&to.CAFile),
		"cert_file":         text(&to.CertFile),
		"key_file":          text(&to.KeyFile),
		"server_name":       text(&to.ServerName),
		"sentinel_username": text(&to.SentinelUsername),

		"password_file":          text(&to.PasswordFile),
		"settings_password_file": text(&to.SettingsPasswordFile),
		"sentinel_password_file": text(&to.SentinelPasswordFile),
	})
}

func headerSize(to *int) value {
	return func(r *reader, path string, n *yaml.Node) {
		v := int64(*to)
		size(&v, 1<<10, 1<<20)(r, path, n)
		*to = int(v)
	}
}

// pools reads a mapping whose keys are the pools' names.
func pools(f *File) value {
	return func(r *reader, path string, n *yaml.Node) {
		r.entries(path, n, func(at string, key, val *yaml.Node) {
			p := Pool{Scheduler: SchedulerFCFS}
			r.read(at, val, group(map[string]value{
				"model":                text(&p.Model),
				"revision":             text(&p.Revision),
				"usd_per_hour":         amount(&p.USDPerHour, 100_000),
				"prefill_tokens_per_s": rate(&p.PrefillPerSecond, maxTokensPerSecond),
				"decode_tokens_per_s":  rate(&p.DecodePerSecond, maxTokensPerSecond),
				"backends":             texts(&p.Backends),
				"discover":             text(&p.Discover),
				"scheduler":            text(&p.Scheduler),
				"kv_events":            whole(&p.KVEvents, 0, 65535),
			}))
			f.Pools[key.Value] = p // also when it is broken, so that its routes are not blamed
		})
	}
}

func readRoute(r *reader, path string, n *yaml.Node) Route {
	var t Route
	group(map[string]value{
		"model":          text(&t.Model),
		"draft":          text(&t.Draft),
		"target":         text(&t.Target),
		"same_tokenizer": truth(&t.SameTokenizer),
		"allow_fields":   texts(&t.AllowFields),
	})(r, path, n)
	return t
}

// poolNames lists the pools for a message.
func poolNames(f *File) string {
	names := make([]string, 0, len(f.Pools))
	for name := range f.Pools {
		names = append(names, name)
	}
	slices.Sort(names)
	const most = 20
	if len(names) > most {
		names = append(names[:most], "…")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
