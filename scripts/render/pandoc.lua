-- What a Pandoc of `converter.py` runs: one conversion after the other, as `pandoc lua pandoc.lua`.
--
-- A job is a line of JSON and, after it, the text of so many bytes; so is the answer. Its log is Pandoc's own
-- messages, of which the caller reads the warnings.

local json, log = pandoc.json, pandoc.log

local function quiet(messages, work, ...)
  local new, result = log.silence(work, ...)
  for _, message in ipairs(new) do
    table.insert(messages, message)
  end
  return result
end

-- The command's own width, which decides whether a table's columns share the page.
local function converted(job, text)
  local messages = {}
  local document = quiet(messages, pandoc.read, text, job.from, { columns = 72 })
  if job.bibliography then
    document.meta.bibliography = job.bibliography
    document = quiet(messages, pandoc.utils.citeproc, document)
  end
  return quiet(messages, pandoc.write, document, job.to, job.options), messages
end

while true do
  local line = io.read('l')
  if not line then
    break
  end
  local job = json.decode(line, false)
  -- To read nothing would wait for the next job.
  local text = job.bytes > 0 and io.read(job.bytes) or ''
  local fine, out, messages = pcall(converted, job, text)
  if not fine then
    out, messages = tostring(out), {}
  end
  io.write(json.encode({ number = job.number, fine = fine, bytes = #out, log = pandoc.List(messages) }), '\n', out)
  io.flush()
end
