-- Adds a replica to the set, drops who is gone, and tells who lives.
-- KEYS[1] replicas; ARGV 1 id, 2 ms until one counts as gone, 3 ms until it is dropped, 4 most members told
-- -> {now, error or '', {live ids}}
local k=KEYS[1]
local t=redis.call('TIME'); local now=t[1]*1000+math.floor(t[2]/1000)
local function ms(v) return string.format('%.0f',v) end
local r=redis.pcall('ZADD',k,ms(now),ARGV[1])
if type(r)=='table' and r.err then
  if string.find(r.err,'READONLY',1,true) then return r end -- as an error: the client then looks for the master anew
  return {now,'ZADD: '..r.err,{}}
end
-- 100 ms is what a clock may be slewed back; a score further ahead is from before a jump.
redis.call('ZREMRANGEBYSCORE',k,'('..ms(now+100),'+inf')
redis.call('ZREMRANGEBYSCORE',k,'-inf','('..ms(now-tonumber(ARGV[3])))
return {now,'',redis.call('ZRANGEBYSCORE',k,'('..ms(now-tonumber(ARGV[2])),'+inf','LIMIT',0,ARGV[4])}
