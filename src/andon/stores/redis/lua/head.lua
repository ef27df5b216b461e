-- What every script begins with. KEYS[1] is the prefix of one partition, "{namespace:partition}:", so
-- that all keys of a script lie in one slot. ARGV[1] is the packed argument, ARGV[2] the time in ms
-- UTC of a test that runs virtual time, else empty.
local P = KEYS[1]
local A = cmsgpack.unpack(ARGV[1])
local call = redis.call
local now = tonumber(ARGV[2])
if not now then
  local t = call('TIME')
  now = t[1] * 1000 + math.floor(t[2] / 1000)
end
