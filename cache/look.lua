-- Looks for an answer, and takes or follows a lease where there is none. One script, so that of those who ask at once one leads.
-- KEYS: value; lease, its chunks, where a lease is asked for. ARGV: most bytes of the value, token, milliseconds.
-- {'hit', value, milliseconds that it still has}, or {'lead' | 'follow', holder, odd}, or odd alone: no value and no lease.
-- odd: 1 the value is too large | 2 its key was of another type | 0
local odd=0
local n=redis.pcall('STRLEN',KEYS[1])
if type(n)=='table' then
  if not string.find(n.err,'WRONGTYPE',1,true) then return n end
  odd=2
  redis.pcall('UNLINK',KEYS[1])
elseif n>tonumber(ARGV[1]) then
  odd=1
elseif n>0 then
  return {'hit',redis.call('GET',KEYS[1]),redis.call('PTTL',KEYS[1])}
end
if not KEYS[2] then return odd end
local lease,chunks,token,ms=KEYS[2],KEYS[3],ARGV[2],ARGV[3]
-- A Redis that is full has no leases: each goes by itself. Any other error is told, so that the client leaves a node that is no master any more.
local function failed(reply)
  if type(reply)~='table' or not reply.err then return nil end
  if string.find(reply.err,'OOM',1,true) then return odd end
  return reply
end
local holder=redis.pcall('GET',lease)
if type(holder)=='string' and holder~=token and redis.call('PTTL',lease)>0 then -- one without an end is nobody's
  if redis.call('TYPE',chunks).ok~='stream' then -- the holder learns by it that somebody follows
    redis.pcall('UNLINK',chunks)
    local f=failed(redis.pcall('XADD',chunks,'*','w','1'))
    if f then return f end
    redis.call('PEXPIRE',chunks,ms)
  end
  return {'follow',holder,odd}
end
local f=failed(redis.pcall('SET',lease,token,'PX',ms))
if f then return f end
redis.call('UNLINK',chunks)
return {'lead','',odd}
