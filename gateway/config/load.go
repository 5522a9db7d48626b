package config

import (
	"slices"
	"strings"
	"time"

	"github.com/foregate/foregate/internal/yamlfile"
	"github.com/foregate/foregate/tiers/dialect"
)

// maxTokensPerSecond is far above the speed of any backend.
const maxTokensPerSecond = 10_000_000

// MaxFile bounds the size of a configuration or tenants file, in bytes. Real ones are much smaller.
const MaxFile = 1 << 20

// Load reads and checks the file at path.
func Load(path string) (*File, error) {
	data, err := yamlfile.ReadFile(path, MaxFile)
	if err != nil {
		return nil, err
	}
	return Parse(path, data)
}

// reader is a configuration or tenants file while it is read and checked.
type reader struct{ *yamlfile.File }

// Parse checks data as a configuration file; name is its name in errors. The error lists every mistake, one
// per line, in the order of the file.
func Parse(name string, data []byte) (*File, error) {
	file, root, ok := yamlfile.Open(yamlfile.Options{Name: name, Needs: "pools and routes", MaxBytes: MaxFile}, data)
	if !ok {
		return nil, file.Err()
	}
	f := defaults()
	read(f, root.Fields())
	if root.IsFields() {
		reader{file}.check(f)
	}
	if err := file.Err(); err != nil {
		return nil, err
	}
	return f, nil
}

// defaults is the configuration of an empty file.
func defaults() *File {
	return &File{
		Listen:   ":8080",
		Admin:    "127.0.0.1:9090",
		Redis:    Redis{URL: "none", Replicas: 1},
		Cache:    Cache{LocalBytes: 32 << 20},
		Identity: Identity{DefaultTenant: Tenant{MaxPriority: "normal"}},
		Pools:    map[string]Pool{},
		Passthrough: []string{
			"/v1/embeddings", "/tokenize", "/detokenize", "/v1/rerank", "/v1/score",
		},
		Limits: Limits{BodyBytes: 4 << 20, ResponseBytes: 16 << 20, InFlight: 4096, HeaderBytes: 16 << 10},
		Drain:  Drain{Delay: 5 * time.Second, Grace: 25 * time.Second},

		Tracing: Tracing{Sample: defaultSample}, Export: Export{Share: defaultShare, Content: ContentNone},
	}
}

// read reads the fields of the file.
func read(f *File, b *yamlfile.Fields) {
	b.At("listen").Text(&f.Listen)
	b.At("admin").Text(&f.Admin)
	b.At("admin_tokens_file").Text(&f.AdminTokensFile)
	readListenerTLS(&f.TLS, b.At("tls"))
	readListenerTLS(&f.AdminTLS, b.At("admin_tls"))
	readRedis(&f.Redis, b.At("redis").Fields())
	readCache(&f.Cache, b.At("cache").Fields())
	readIdentity(&f.Identity, b.At("identity").Fields())
	readPools(f, b.At("pools").Fields())
	for _, v := range b.At("routes").Items() {
		f.Routes = append(f.Routes, readRoute(v.Fields()))
	}
	f.Tenants = readTenants(b.At("tenants"))
	b.At("tenants_file").Text(&f.TenantsFile)
	b.At("passthrough").Texts(&f.Passthrough)
	readLimits(&f.Limits, b.At("limits").Fields())
	drain := b.At("drain").Fields()
	drain.At("delay").Duration(&f.Drain.Delay, 0, 10*time.Minute)
	drain.At("grace").Duration(&f.Drain.Grace, 0, time.Hour)
	drain.Done()
	readTracing(&f.Tracing, b.At("tracing").Fields())
	readExport(&f.Export, b.At("export").Fields())
	b.Done()
}

func readCache(c *Cache, b *yamlfile.Fields) {
	b.At("seal_keys_file").Text(&c.SealKeysFile)
	b.At("local_bytes").Size(&c.LocalBytes, 0, 16<<30)
	b.Done()
}

func readIdentity(i *Identity, b *yamlfile.Fields) {
	b.At("mode").Text(&i.Mode)
	b.At("trusted_proxies").Texts(&i.TrustedProxies)
	b.At("unlisted_tenants").Text(&i.UnlistedTenants)
	unlisted := b.At("default_tenant").Fields()
	readTenantLimits(&i.DefaultTenant, unlisted)
	unlisted.Done()
	jwt := b.At("jwt").Fields()
	jwt.At("issuer").Text(&i.JWT.Issuer)
	jwt.At("audience").Text(&i.JWT.Audience)
	jwt.At("jwks_file").Text(&i.JWT.JWKSFile)
	jwt.At("algorithms").Texts(&i.JWT.Algorithms)
	jwt.At("tenant_claim").Text(&i.JWT.TenantClaim)
	jwt.At("priority_claim").Text(&i.JWT.PriorityClaim)
	jwt.Done()
	b.Done()
}

func readRedis(to *Redis, b *yamlfile.Fields) {
	b.At("url").Text(&to.URL)
	b.At("cache_url").Text(&to.CacheURL)
	b.At("settings_url").Text(&to.SettingsURL)
	b.At("replicas").Whole(&to.Replicas, 1, 1000)
	b.At("ca_file").Text(&to.CAFile)
	b.At("cert_file").Text(&to.CertFile)
	b.At("key_file").Text(&to.KeyFile)
	b.At("server_name").Text(&to.ServerName)
	b.At("sentinel_username").Text(&to.SentinelUsername)
	b.At("password_file").Text(&to.PasswordFile)
	b.At("settings_password_file").Text(&to.SettingsPasswordFile)
	b.At("sentinel_password_file").Text(&to.SentinelPasswordFile)
	b.Done()
}

// readPools reads a mapping whose keys are the pools' names.
func readPools(f *File, pools *yamlfile.Fields) {
	for _, name := range pools.Names() {
		p := Pool{Engine: string(dialect.Auto), Scheduler: SchedulerFCFS}
		b := pools.At(name).Fields()
		b.At("model").Text(&p.Model)
		b.At("revision").Text(&p.Revision)
		b.At("usd_per_hour").Number(&p.USDPerHour, 0, 100_000)
		b.At("usd_per_million_input").Number(&p.USDPerMillionInput, 0, maxUSDPerMillion)
		b.At("usd_per_million_output").Number(&p.USDPerMillionOutput, 0, maxUSDPerMillion)
		readRate(&p.PrefillPerSecond, b.At("prefill_tokens_per_s"))
		readRate(&p.DecodePerSecond, b.At("decode_tokens_per_s"))
		b.At("backends").Texts(&p.Backends)
		b.At("discover").Text(&p.Discover)
		b.At("engine").Text(&p.Engine)
		b.At("scheduler").Text(&p.Scheduler)
		b.At("kv_events").Whole(&p.KVEvents, 0, 65535)
		readPoolAuth(&p.Auth, b.At("auth").Fields())
		readPoolTLS(&p.TLS, b.At("tls"))
		b.Done()
		f.Pools[name] = p // even if it is invalid, so that its routes are not reported, too
	}
}

// readRate reads tokens per second: a number of at least minRate, so that divisions by it stay finite.
func readRate(to *float64, v yamlfile.Value) {
	const minRate = 0.01
	x := minRate
	switch v.Number(&x, 0, maxTokensPerSecond); {
	case x < minRate:
		v.Fail("must be above 0; want %g … %g, or leave it out where it is not known", minRate, float64(maxTokensPerSecond))
	case v.IsSet():
		*to = x
	}
}

func readRoute(b *yamlfile.Fields) Route {
	var t Route
	b.At("model").Text(&t.Model)
	b.At("draft").Text(&t.Draft)
	b.At("target").Text(&t.Target)
	for _, v := range b.At("targets").Items() {
		t.Targets = append(t.Targets, readWeightedTarget(v.Fields()))
	}
	if len(t.Targets) > 0 && t.Target == "" {
		t.Target = t.Targets[0].Pool
	}
	t.Mirror = readMirror(b.At("mirror").Fields())
	b.At("same_tokenizer").Bool(&t.SameTokenizer)
	b.At("allow_fields").Texts(&t.AllowFields)
	for _, v := range b.At("fallbacks").Items() {
		t.Fallbacks = append(t.Fallbacks, readFallback(v.Fields()))
	}
	b.Done()
	return t
}

func readLimits(l *Limits, b *yamlfile.Fields) {
	b.At("body_bytes").Size(&l.BodyBytes, 1<<10, 1<<30)
	b.At("response_bytes").Size(&l.ResponseBytes, 1<<10, 1<<30)
	b.At("in_flight").Whole(&l.InFlight, 1, 1_000_000)
	header := int64(l.HeaderBytes)
	b.At("header_bytes").Size(&header, 1<<10, 1<<20)
	l.HeaderBytes = int(header)
	b.At("connections").Whole(&l.Connections, minConnections, maxConnections)
	b.At("connections_per_address").Whole(&l.ConnectionsPerAddress, 1, maxConnections)
	b.At("balancers").Texts(&l.Balancers)
	b.Done()
}

// poolNames lists the pools for a message.
func poolNames(f *File) string {
	names := make([]string, 0, len(f.Pools))
	for name := range f.Pools {
		names = append(names, name)
	}
	slices.Sort(names)
	const maxNames = 20
	if len(names) > maxNames {
		names = append(names[:maxNames], "…")
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
