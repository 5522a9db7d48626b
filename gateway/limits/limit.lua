-- Charges a tenant for requests and tokens if both limits let it, or settles what was charged.
-- KEYS[1] hash; ARGV 1-2 requests a minute (0: no such limit) and their slack, 3-4 tokens, 5-6 requests of priority high,
-- 7 requests, 8 tokens, 9 high ones to charge, 10 'ask' or 'settle', 11 most minutes owed, 12 expiry in ms, 13 requests and 14 tokens that a replica was owed while
-- it counted for itself: they are added, and then no less than 15 requests and 16 tokens are owed
-- -> {error or '', 0 charged | 1 refused for requests | 2 for tokens, 1 when high is used up, owed requests, owed tokens (both in thousandths)}
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000000+t[2]
local v=redis.pcall('HMGET',k,'at','r','t','h')
if v.err then return {v.err,0,0,0,0} end
local a={}; for i=1,16 do a[i]=tonumber(ARGV[i]) end
local how,most=ARGV[10],a[11]
local function num(s)
  local n=tonumber(s)
  if n==nil or n~=n or n<0 then return 0 end
  return n
end
local at=num(v[1])
local minutes=math.max(0,(now-at)/60000000)
local function owed(s,cap) return math.max(0,math.min(num(s),cap*most)-minutes*cap) end
local r,tok,h=owed(v[2],a[1]),owed(v[3],a[3]),owed(v[4],a[5])
local demoted=0
local function add(n,more,cap) return math.max(0,math.min(n+more,cap*most)) end
r,tok=math.max(add(r,a[13],a[1]),a[15]),math.max(add(tok,a[14],a[3]),a[16])
local function text(n) return string.format('%.6f',n) end
local function keep()
  redis.call('HSET',k,'at',string.format('%.0f',now),'r',text(r),'t',text(tok),'h',text(h))
  redis.call('PEXPIRE',k,ARGV[12])
end
if how~='settle' then
  local wr,wt=0,0
  if a[1]>0 then wr=(r-a[2]-0.000001)/a[1] end
  if a[3]>0 then wt=(tok-a[4]-0.000001)/a[3] end
  if wr>0 or wt>0 then
    -- A time that is still to come (a clock that was set back, a hand) drains nothing until then.
    if a[15]>0 or a[16]>0 or at>now then keep() end
    local why=1; if wt>wr then why=2 end
    return {'',why,0,math.floor(r*1000),math.floor(tok*1000)}
  end
  if a[9]>0 and a[5]>0 then
    if h>a[6]+0.000001 then demoted=1 else h=h+a[9] end
  end
end
if how=='settle' then h=add(h,a[9],a[5]) end
r,tok=add(r,a[7],a[1]),add(tok,a[8],a[3])
keep()
return {'',0,demoted,math.floor(r*1000),math.floor(tok*1000)}
