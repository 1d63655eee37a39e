/** A conversation that moves to another upstream: signatures go only to their issuer. */
import { expect, test } from 'bun:test'
import { startApp } from '../support/app.ts'
import { createGemini, googleError } from '../support/gemini-upstream.ts'
import { startUpstream } from '../support/upstream.ts'

const tools = [{ type: 'function', function: { name: 'clock' } }]
const catalogueOf = (urls: string[]) => `
version: 1
upstreams:
${urls.map((url, at) => `  google-${at}: { dialect: gemini, base_url: "${url}", api_key: \${GEMINI_API_KEY} }`).join('\n')}
models:
  google/gemini:
    { name: Gemini, context_length: 1000, max_output_length: 100, input_modalities: [text], output_modalities: [text], supported_features: [tools, reasoning], pricing: [{ prompt: "0.000001", completion: "0.000002" }],
      routes: [${urls.map((_, at) => `{ upstream: google-${at}, model: gemini-3-pro, priority: ${at} }`).join(', ')}] }
`

test("one upstream's signature isn't sent to the next, which gets its own back", async () => {
  const turn = (step: number) => (step < 2 ? { calls: [{ name: 'clock' }] } : { text: 'Noon.' })
  const first = createGemini(turn, { key: 'k' })
  const second = createGemini(turn, { key: 'k' })
  const upstreams = [await startUpstream(first.script), await startUpstream(second.script)]
  const urls = upstreams.map(({ url }) => `${url}beta`)
  const app = await startApp({ catalog: catalogueOf(urls), environment: { GEMINI_API_KEY: 'k' } })
  const key = app.key()
  const messages: unknown[] = [{ role: 'user', content: 'Go' }]
  const ask = async () => {
    const response = await fetch(`${app.baseUrl}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'google/gemini', messages, tools }),
    })
    expect(response.status).toBe(200)
    const { message } = JSON.parse(await response.text()).choices[0]
    messages.push(message)
    for (const { id } of message.tool_calls ?? []) messages.push({ role: 'tool', tool_call_id: id, content: 'noon' })
    return message
  }
  await ask()
  // The first is out of quota, and the second continues without its signatures.
  upstreams[0]?.script(googleError(429, 'RESOURCE_EXHAUSTED', 'Quota.'))
  await ask()
  expect((await ask()).content).toBe('Noon.')
  expect([first.refused, second.refused]).toEqual([[], []])
  const signatures = [...(upstreams[1]?.requests.at(-1)?.body ?? '').matchAll(/"thoughtSignature":"(\w+={0,2})"/g)]
  const [own = ''] = second.issued
  expect(signatures.map(([, signature]) => signature)).toEqual(['skip_thought_signature_validator', own])
  await app.stop()
  for (const upstream of upstreams) await upstream.stop()
})
