-- Stores what one replica has spent in some windows of a tenant, and says what the others have spent. With 'ask' it also
-- decides whether what the replica wants to reserve fits into the tenant's budgets.
-- KEYS[1] hash of all budgets: beat counts the calls, since is the time in ms when Redis was found to have lost data
-- KEYS[2…] one hash per window: a field per replica process with 'version settled-tokens settled-nanos reserved-tokens
-- reserved-nanos time-in-ms'; the field folded is the sum of processes that are gone
-- ARGV[1] highest beat that the replica knows, 2 ms after a loss in which replicas fill Redis again, 3 ms after which the
-- reservations of a silent process do not count, 4 ms after which it is folded, 5 fields from which on that is done,
-- 6 'ask' or 'tell'; then 11 for each window: field, version (0: only read), settled tokens and nanos, reserved tokens and
-- nanos (with what is asked for), asked tokens and nanos, most tokens and nanos (0: no such budget), expiry in ms
-- -> {error or '', beat, since if the replicas fill Redis now else 0, refused: 0 or 2 × window - 1 for tokens, 2 × window for
-- nanos, then for each window what the others have: settled tokens, settled nanos, reserved tokens, reserved nanos}
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
local function num(s)
  local n=tonumber(s)
  if n==nil or n~=n or n<0 or n>9e15 then return 0 end
  return n
end
local function text(n) return string.format('%.0f',math.max(0,math.min(n,9e15))) end
local asking=ARGV[6]=='ask'
local windows={}
for i=1,#KEYS-1 do
  local b=6+(i-1)*11
  local v=redis.pcall('HGETALL',KEYS[i+1])
  if v.err then return {v.err} end
  local w={field=ARGV[b+1],fields=#v/2,st=0,sn=0,rt=0,rn=0}
  for j=1,#v,2 do
    local f={string.match(v[j+1],'^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')}
    for x=1,6 do f[x]=num(f[x]) end
    local age=now-f[6]
    if v[j]==w.field then
      w.stored=f
    else
      w.st,w.sn=w.st+f[2],w.sn+f[3]
      if v[j]=='folded' then
        w.folded=f
      elseif age<num(ARGV[3]) then
        w.rt,w.rn=w.rt+f[4],w.rn+f[5]
      elseif age>num(ARGV[4]) and (not w.oldest or f[6]<w.oldest[6]) then
        w.oldest,w.oldestName=f,v[j]
      end
    end
  end
  local own={num(ARGV[b+2]),num(ARGV[b+3]),num(ARGV[b+4]),num(ARGV[b+5]),num(ARGV[b+6])}
  w.newer=own[1]>0 and (not w.stored or own[1]>w.stored[1])
  if w.newer then w.own=own else w.own=w.stored or {0,0,0,0,0} end
  w.askT,w.askN,w.mostT,w.mostN,w.expiry=num(ARGV[b+7]),num(ARGV[b+8]),num(ARGV[b+9]),num(ARGV[b+10]),ARGV[b+11]
  windows[i]=w
end
local m=redis.pcall('HMGET',KEYS[1],'beat','since')
if m.err then return {m.err} end
local beat,since=num(m[1]),math.min(num(m[2]),now)
if not m[1] or beat<num(ARGV[1]) then since=now end
beat=math.max(beat,num(ARGV[1]))+1
redis.call('HSET',KEYS[1],'beat',text(beat),'since',text(since))
local refused=0
if asking then
  for i,w in ipairs(windows) do
    local tokens,nanos=w.st+w.rt+w.own[2]+w.own[4],w.sn+w.rn+w.own[3]+w.own[5]
    if w.mostT>0 and (tokens>w.mostT or tokens-w.askT>=w.mostT) then refused=2*i-1 break end
    if w.mostN>0 and (nanos>w.mostN or nanos-w.askN>=w.mostN) then refused=2*i break end
  end
end
local reply={'',beat,0,refused}
if now-since<num(ARGV[2]) then reply[3]=since end
for i,w in ipairs(windows) do
  if w.newer then
    local o=w.own
    if refused>0 then o[4],o[5]=o[4]-w.askT,o[5]-w.askN end
    redis.call('HSET',KEYS[i+1],w.field,text(o[1])..' '..text(o[2])..' '..text(o[3])..' '..text(o[4])..' '..text(o[5])..' '..text(now))
    if w.oldest and w.fields>num(ARGV[5]) then
      local f=w.folded or {0,0,0}
      redis.call('HSET',KEYS[i+1],'folded','1 '..text(f[2]+w.oldest[2])..' '..text(f[3]+w.oldest[3])..' 0 0 '..text(now))
      redis.call('HDEL',KEYS[i+1],w.oldestName)
    end
    redis.call('PEXPIRE',KEYS[i+1],w.expiry)
  end
  for _,n in ipairs({w.st,w.sn,w.rt,w.rn}) do reply[#reply+1]=math.min(n,9e15) end
end
return reply
