-- Notes a purge by Redis' clock; what was purged before never goes back. A hash that is full, or none at all, becomes
-- one of everything, which covers all that was in it.
-- KEYS[1] hash; ARGV 1 most fields, 2 field -> {the field that was set, its epoch in us}
local k,field=KEYS[1],ARGV[2]
local t=redis.call('TIME'); local now=t[1]*1000000+t[2]
local n=redis.pcall('HLEN',k)
if type(n)~='number' then redis.call('DEL',k); n=0; field='all' end
if n>=tonumber(ARGV[1]) and redis.call('HEXISTS',k,field)==0 then field='all' end
local was=tonumber(redis.call('HGET',k,field))
if was and was>=now and was<9e15 then now=was+1 end
if field=='all' then redis.call('DEL',k) end
local epoch=string.format('%.0f',now)
redis.call('HSET',k,field,epoch)
return {field,epoch}
