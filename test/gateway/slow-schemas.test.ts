/** Schemas that are slow to check delay only their own key. */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { endWell, type Several, startSeveral } from '../support/several-upstreams.ts'
import { wholeAnswer } from '../support/upstream-answers.ts'

const PARALLEL = 16
/** The pattern has more ways to match than there are seconds. */
const ENDLESS = { type: 'object', properties: { a: { type: 'string', pattern: '^(a+)+$' } } }
const ANSWER = `{"a":"${'a'.repeat(40)}!"}`
const ORDINARY = { type: 'object', properties: { a: { type: 'string' } }, required: ['a'] }

let several: Several
beforeEach(async () => {
  several = await startSeveral()
  several.first.script(wholeAnswer({ tokens: [ANSWER] }))
})
afterEach(() => endWell(several))

async function ask(key: string, schema: Record<string, unknown>, signal?: AbortSignal) {
  const response_format = { type: 'json_schema', json_schema: { name: 's', schema } }
  const response = await several.chat({ model: 'acme/only', response_format }, { key, ...(signal ? { signal } : {}) })
  const body: unknown = await response.json()
  return { status: response.status, body }
}

test("one key’s many endless patterns don't block another key’s structured requests", async () => {
  const hostile = several.app.key({ name: 'hostile' })
  const bystander = several.app.key({ name: 'bystander' })
  const leaving = new AbortController()
  let over = 0
  const all = Array.from({ length: PARALLEL }, async (_, n) => {
    await ask(hostile, { ...ENDLESS, title: String(n) }, leaving.signal).catch(() => undefined)
    over++
  })
  await several.first.waitFor((seen) => seen.length === PARALLEL, 'all of the hostile calls')
  for (let n = 0; n < 3; n++) {
    expect(await ask(bystander, { ...ORDINARY, title: String(n) })).toMatchObject({
      status: 200,
      body: { choices: [{ message: { content: ANSWER } }] },
    })
  }
  // Nearly all of them still wait for their check.
  expect(over).toBeLessThan(3)
  leaving.abort()
  await Promise.all(all)
  // Their cost is recorded a little later.
  await several.app.settled(PARALLEL + 3)
})
