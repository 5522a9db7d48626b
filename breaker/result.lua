-- Tells what a probe found. Only whoever holds the lease is believed.
-- KEYS[1] hash; ARGV 1 token, 2 '1' well or '0' not, 3 successes that close, 4 first open time in ms, 5 longest,
--   6 lease in ms, 7 permille more or less of the open time, 8 '1' where it could not be reached
-- -> -1 another holds the lease, 0 closed, 1 probe again, 2 open again
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
local v=redis.call('HMGET',k,'st','pt','ps','n')
local function count(i)
  local n=tonumber(v[i])
  if n==nil or n~=n or n<0 or n>=9007199254740991 then return 0 end
  return math.floor(n)
end
local function whole(n) return string.format('%.0f',n) end
if v[1]~='1' or v[2]~=ARGV[1] then return -1 end
if ARGV[2]=='1' then
  local well=count(3)+1
  if well<tonumber(ARGV[3]) then
    redis.call('HSET',k,'ps',well,'pu',whole(now+tonumber(ARGV[6])))
    return 1
  end
  redis.call('DEL',k) -- closed and nothing seen is as good as absent
  return 0
end
local n=math.min(count(4),10)
local open=math.floor(math.min(tonumber(ARGV[4])*2^n,tonumber(ARGV[5]))*(1000+tonumber(ARGV[7]))/1000)
redis.call('DEL',k)
redis.call('HSET',k,'st',2,'ou',whole(now+open),'n',math.min(n+1,10),'ur',ARGV[8])
redis.call('PEXPIRE',k,600000)
return 2
