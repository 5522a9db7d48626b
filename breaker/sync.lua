-- Adds what one replica saw of a backend to what all saw, and opens the breaker where that is enough.
-- KEYS[1] hash; ARGV 1 finished calls, 2 faults among them, 3 of these: could not be reached,
--   4 bucket in ms, 5 buckets, 6 least finished calls, 7 least percent of faults,
--   8 first open time in ms, 9 longest, 10 permille more or less of it,
--   11 successes that this replica told in the time of the buckets and takes back
-- -> {state, ms it stays open, ms it is leased, 1 where it could not be reached, '' or what is wrong with the key}
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
local size=redis.pcall('HLEN',k)
if type(size)=='table' then return {0,0,0,0,size.err} end
if size>128 then redis.call('DEL',k) end -- ours have 40 fields at most
local fields,flat={},redis.call('HGETALL',k)
for i=1,#flat,2 do fields[flat[i]]=flat[i+1] end
-- What is no count is nothing.
local function count(name)
  local v=tonumber(fields[name])
  if v==nil or v~=v or v<0 or v>=9007199254740991 then return 0 end
  return math.floor(v)
end
local function whole(v) return string.format('%.0f',v) end
local longest=tonumber(ARGV[9])
local state,cut=count('st'),count('ur')
if state>2 then state=0 end
if cut~=1 then cut=0 end

if state==0 then
  local bucket,kept=math.floor(now/tonumber(ARGV[4])),tonumber(ARGV[5])
  local sum={t=tonumber(ARGV[1]),f=tonumber(ARGV[2]),u=tonumber(ARGV[3])}
  local old,live,wells,fewer={},sum.t>0,{},{}
  for name in pairs(fields) do
    local kind,at=string.match(name,'^([tfu]):(%d+)$')
    if kind then
      at=tonumber(at)
      if at==nil or at<=bucket-kept or at>bucket then old[#old+1]=name
      else
        live=true; sum[kind]=sum[kind]+count(name)
        if kind=='t' then wells[#wells+1]=name end
      end
    end
  end
  -- From the oldest: what is left of others' then lasts longest.
  local back=tonumber(ARGV[11])
  table.sort(wells)
  for _,name in ipairs(wells) do
    local n=math.min(back,math.max(count(name)-count('f:'..string.sub(name,3)),0))
    if n>0 then back=back-n; sum.t=sum.t-n; fields[name]=whole(count(name)-n); fewer[#fewer+1]=name end
  end
  -- Only a fault opens, not that successes have grown old.
  if tonumber(ARGV[2])>0 and sum.t>=tonumber(ARGV[6]) and sum.f*100>=sum.t*tonumber(ARGV[7]) then
    local n=math.min(count('n'),10)
    local open=math.floor(math.min(tonumber(ARGV[8])*2^n,longest)*(1000+tonumber(ARGV[10]))/1000)
    cut=0; if sum.u*2>sum.f then cut=1 end
    redis.call('DEL',k)
    redis.call('HSET',k,'st',2,'ou',whole(now+open),'n',math.min(n+1,10),'ur',cut)
    redis.call('PEXPIRE',k,600000)
    return {2,open,0,cut,''}
  end
  if not live then
    if size>0 then redis.call('DEL',k) end -- closed and nothing seen is as good as absent
  else
    for i=1,#old do redis.call('HDEL',k,old[i]) end
    for _,name in ipairs(fewer) do redis.call('HSET',k,name,fields[name]) end
    for i,kind in ipairs({'t','f','u'}) do
      local name,more=kind..':'..whole(bucket),tonumber(ARGV[i])
      if more>0 then redis.call('HSET',k,name,whole(count(name)+more)) end
    end
    redis.call('PEXPIRE',k,600000)
  end
end

-- A time that is further off than it can be is the clock's fault, and over.
local open,leased=0,0
if state==2 then open=count('ou')-now; if open<0 or open>longest*2 then open=0 end end
if state==1 then leased=count('pu')-now; if leased<0 or leased>longest*2 then leased=0 end end
return {state,open,leased,cut,''}
