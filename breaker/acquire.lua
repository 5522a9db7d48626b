-- Takes the lease of a breaker that is due: its open time is over, or whoever tested it has not told in time.
-- KEYS[1] hash; ARGV 1 token, 2 lease in ms, 3 longest open time in ms, 4 is 1: it is due whatever is left of its open time
-- -> 1 granted or 0
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
local v=redis.call('HMGET',k,'st','ou','pu')
local function count(i)
  local n=tonumber(v[i])
  if n==nil or n~=n or n<0 or n>=9007199254740991 then return 0 end
  return math.floor(n)
end
local state,lease=count(1),tonumber(ARGV[2])
local left,most=0,0
if state==2 then left,most=count(2)-now,tonumber(ARGV[3])*2
  if ARGV[4]=='1' then left=0 end
elseif state==1 then left,most=count(3)-now,lease*2
else return 0 end
if left>0 and left<=most then return 0 end
redis.call('HSET',k,'st',1,'pt',ARGV[1],'pu',string.format('%.0f',now+lease),'ps',0)
redis.call('PEXPIRE',k,600000)
return 1
