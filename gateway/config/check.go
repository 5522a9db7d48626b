package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/foregate/foregate/internal/yamlfile"
	"github.com/foregate/foregate/tiers/dialect"
	"github.com/foregate/foregate/tiers/discover"
	"github.com/foregate/foregate/tiers/fields"
)

// check refuses values that can be parsed but are inconsistent. A field that could not be parsed counts as
// given, so that one mistake is reported once.
func (r reader) check(f *File) {
	r.checkListeners(f)
	r.checkRedis(f)
	r.checkCache(f.Cache)
	for _, name := range slices.Sorted(maps.Keys(f.Pools)) {
		r.checkPool("pools."+name, f.Pools[name])
		r.checkTokenPrices("pools."+name, name, f)
	}
	if len(f.Pools) == 0 && !r.Has("pools") {
		r.Fail("pools", "missing; give at least one pool with its model and backends")
	} else if len(f.Pools) == 0 && r.Sound("pools") {
		r.Fail("pools", "there is no pool; give at least one with its model and backends")
	}
	r.checkRoutes(f)
	r.checkTenants(f.Tenants)
	r.checkPassthrough(f)
	r.checkIdentity(f)
	r.checkTracing(&f.Tracing)
}

func (r reader) checkListeners(f *File) {
	for _, l := range []struct{ path, addr string }{{"listen", f.Listen}, {"admin", f.Admin}} {
		if _, _, err := splitAddr(l.addr); err != nil && r.Sound(l.path) {
			r.Fail(l.path, "%v; want host:port such as 127.0.0.1:8080 or :8080", err)
		}
	}
	if r.Has("admin_tokens_file") {
		r.checkPath("admin_tokens_file", f.AdminTokensFile, "")
	} else if err := CheckAdmin(f.Admin); err != nil && r.Sound("admin") {
		r.Fail("admin", "%v", err)
	}
	if f.Listen == f.Admin && !strings.HasSuffix(f.Listen, ":0") && (r.Has("listen") || r.Has("admin")) {
		r.Fail("admin", "is the address of listen as well; the admin listener needs its own")
	}
	r.checkListenerTLS("tls", f.TLS)
	r.checkListenerTLS("admin_tls", f.AdminTLS)
}

// checkCache checks the setting of the seal keys' file. The reader of the file checks its content.
func (r reader) checkCache(c Cache) {
	if r.Has("cache.seal_keys_file") {
		r.checkPath("cache.seal_keys_file", c.SealKeysFile, "")
	}
}

func (r reader) checkPool(path string, p Pool) {
	if !r.Sound(path) {
		return
	}
	if !r.Has(path + ".model") {
		r.Fail(path+".model", "missing; give the model's name as the backends know it")
	} else if p.Model == "" && r.Sound(path+".model") || len(p.Model) > 256 || strings.ContainsFunc(p.Model, notPrintable) {
		r.Fail(path+".model", "want 1–256 printable ASCII characters without spaces")
	}
	if rev := path + ".revision"; r.Has(rev) && r.Sound(rev) && (p.Revision == "" || len(p.Revision) > 64 || !yamlfile.Only(p.Revision, "._:@/-")) {
		r.Fail(rev, "want 1–64 of A-Z a-z 0-9 . _ : @ / -")
	}
	backends, discovered := r.Has(path+".backends"), r.Has(path+".discover")
	switch {
	case backends && discovered:
		r.Fail(path+".discover", "backends are given as well; keep one of the two")
	case !backends && !discovered:
		r.Fail(path, "has no backends; give backends: [http://host:8000] or discover: dns://host:8000 or srv://…")
	case discovered && r.Sound(path+".discover"):
		if err := discover.Check(p.Discover); err != nil {
			r.Fail(path+".discover", "%v", err)
		}
	case backends && len(p.Backends) == 0 && r.Sound(path+".backends"):
		r.Fail(path+".backends", "the list is empty; give at least one URL")
	}
	r.checkBackends(path+".backends", p.Backends)
	r.checkPoolAuth(path+".auth", p.Auth)
	r.checkPoolTLS(path, p)
	if s := path + ".engine"; r.Sound(s) {
		if _, err := dialect.ParseKind(p.Engine); err != nil {
			r.Fail(s, "%v", err)
		}
	}
	if s := path + ".scheduler"; p.Scheduler != SchedulerFCFS && p.Scheduler != SchedulerPriority && r.Sound(s) {
		r.Fail(s, "want fcfs or priority, as the backends' --scheduling-policy is")
	}
}

// checkBackends replaces each URL in the list by its canonical form.
func (r reader) checkBackends(path string, backends []string) {
	seen := map[string]int{}
	for i, raw := range backends {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		clean, err := baseURL(raw)
		if err != nil {
			r.Fail(at, "%v", err)
			continue
		}
		if first, twice := seen[clean]; twice {
			r.Fail(at, "is the same backend as %s[%d]; remove one", path, first)
		}
		seen[clean], backends[i] = i, clean
	}
}

func notPrintable(c rune) bool { return c <= ' ' || c > '~' }

func (r reader) checkRoutes(f *File) {
	if len(f.Routes) == 0 && r.Sound("routes") {
		r.Fail("routes", "missing; give at least one route: {model: NAME, target: POOL}")
	}
	seen := map[string]int{}
	for i, t := range f.Routes {
		path := fmt.Sprintf("routes[%d]", i)
		if !r.Sound(path) {
			continue
		}
		if !r.Has(path + ".model") {
			r.Fail(path+".model", "missing; give the model name that clients ask for")
		} else if r.Sound(path + ".model") {
			r.checkRouteName(path+".model", t.Model, seen, i)
		}
		r.checkTargets(path, f, t)
		if r.Has(path + ".draft") {
			r.checkPoolName(path+".draft", t.Draft, f)
		}
		if t.Draft != "" && t.Draft == t.Target && len(t.Targets) == 0 {
			r.Fail(path+".draft", "is the target as well; name a cheaper pool, or leave draft out to use the target alone")
		}
		r.checkAllowed(path+".allow_fields", t.AllowFields)
		r.checkFallbacks(path+".fallbacks", f, t.Fallbacks)
	}
}

// checkAllowed checks the additional fields that a route's clients may send.
func (r reader) checkAllowed(path string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !r.Sound(at) {
			continue
		}
		if err := fields.Allowable(name); err != nil {
			r.Fail(at, "%v", err)
		} else if slices.Contains(names[:i], name) {
			r.Fail(at, "is listed already; remove one")
		}
	}
}

// A route's name is limited to these characters besides letters and digits, and to this length.
const (
	routeNameMarks = "._:/-"
	maxRouteName   = 128
)

// checkRouteName refuses @ in a route's name, because settings are written name@route.
func (r reader) checkRouteName(path, model string, seen map[string]int, i int) {
	if len(model) == 0 || len(model) > maxRouteName || !yamlfile.Only(model, routeNameMarks) {
		r.Fail(path, "want 1–128 of A-Z a-z 0-9 . _ : / -")
		return
	}
	if first, twice := seen[model]; twice {
		r.Fail(path, "routes[%d] has this model already; remove one", first)
		return
	}
	seen[model] = i
}

func (r reader) checkPoolName(path, name string, f *File) {
	if !r.Sound(path) || !r.Sound("pools") {
		return // some pools could not be parsed, so unknown names are no error
	}
	if !yamlfile.SafeName(name) {
		r.Fail(path, "is not a pool's name (defined: %s)", poolNames(f))
		return
	}
	if _, ok := f.Pools[name]; !ok {
		r.Fail(path, "pool %q is not defined (defined: %s)", name, poolNames(f))
	}
}

// engineControl lists paths of vLLM and SGLang that stop, change or reveal an engine. Most of them require no
// authentication.
var engineControl = []string{
	"/pause", "/resume", "/is_paused", "/sleep", "/wake_up", "/is_sleeping", "/abort_requests",
	"/reset_prefix_cache", "/reset_mm_cache", "/reset_encoder_cache", "/collective_rpc", "/server_info",
	"/update_weights", "/init_weight_transfer_engine", "/scale_elastic_ep", "/is_scaling_elastic_ep",
	"/start_profile", "/stop_profile", "/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/invocations",
	"/metrics", "/load", "/docs", "/redoc", "/tokenizer_info", "/fault_tolerance/apply", "/fault_tolerance/status",
	"/flush_cache", "/clear_hicache_storage_backend", "/update_weights_from_disk", "/update_weights_from_distributed", "/update_weights_from_tensor",
	"/init_weights_update_group", "/destroy_weights_update_group", "/update_weight_version", "/get_weights_by_name",
	"/release_memory_occupation", "/resume_memory_occupation", "/slow_down", "/load_lora_adapter", "/unload_lora_adapter",
	"/open_session", "/close_session", "/configure_logging", "/abort_request", "/pause_generation", "/continue_generation",
	"/set_internal_state", "/get_internal_state", "/get_server_info", "/get_model_info", "/model_info", "/get_load", "/v1/loads", "/freeze_gc",
	"/start_expert_distribution_record", "/stop_expert_distribution_record", "/dump_expert_distribution_record",
}

// served lists the paths that the gateway answers itself.
var served = []string{"/v1/chat/completions", "/v1/completions", "/v1/models", "/openapi.json", "/livez", "/readyz", "/health", "/ping", "/version"}

func (r reader) checkPassthrough(f *File) {
	for i, p := range f.Passthrough {
		at := fmt.Sprintf("passthrough[%d]", i)
		switch {
		case !r.Sound(at):
		case !strings.HasPrefix(p, "/") || len(p) < 2 || len(p) > 128 || !yamlfile.Only(p, "/._-") ||
			strings.Contains(p, "//") || strings.Contains(p, "..") || strings.Contains(p, "/./") || strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/."):
			r.Fail(at, "want one exact path such as /v1/embeddings: no query, no // and no dots as a part")
		case slices.Contains(engineControl, p):
			r.Fail(at, "this path controls or reveals the engine and cannot be opened to clients")
		case slices.Contains(served, p):
			r.Fail(at, "the gateway answers this path itself; remove it")
		case slices.Contains(f.Passthrough[:i], p):
			r.Fail(at, "is listed already; remove one")
		}
	}
}
