-- Notes a drain, with its end by Redis' clock.
-- KEYS[1] hash; ARGV 1 most fields, 2 field, 3 the value up to its end, 4 ms from now (0: open end) -> 1, or 0 when the hash is full
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
if redis.call('HEXISTS',k,ARGV[2])==0 and redis.call('HLEN',k)>=tonumber(ARGV[1]) then return 0 end
local ends=0
if tonumber(ARGV[4])>0 then ends=now+tonumber(ARGV[4]) end
redis.call('HSET',k,ARGV[2],ARGV[3]..string.format('%.0f',ends)..'}')
return 1
