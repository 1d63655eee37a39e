/** Limits of a team under a stampede of all its keys. */

import { expect, test } from 'bun:test'
import type { TeamOptions } from '../../src/keys/service.ts'
import { costOf, HELLO_BOUND, HELLO_TOKENS } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'
import { billing, createGate, headersFrom, startBench, toRefusal } from './limiting.ts'

const KEYS = 10
const CROWD = 100
const ROOM = 7
const CAP = 500

const bench = forEachTest(startBench)

test.each<[string, Partial<TeamOptions>, string, string]>([
  ['requests a minute', { rpm: ROOM }, 'rate_limit_exceeded', 'for team `crew` on requests per min'],
  ['at a time', { concurrency: ROOM }, 'rate_limit_exceeded', 'for team `crew` on concurrent requests'],
  [
    'times so many tokens a minute',
    { tpm: ROOM * (HELLO_TOKENS + CAP) + 1 },
    'rate_limit_exceeded',
    'for team `crew` on tokens per min',
  ],
  [
    'times what one may cost',
    { budget: { nanoUsd: ROOM * costOf(HELLO_BOUND, CAP), period: 'day' } },
    'insufficient_quota',
    'Budget exceeded for team `crew`',
  ],
])(`of 100 requests of 10 keys at once, a team with ${ROOM} %s accepts as many`, async (_, limits, code, sentence) => {
  const { app, near, team, ask } = bench
  team({ name: 'crew', ...limits })
  const keys = Array.from({ length: KEYS }, (_, each) => app.key({ name: `k${each}`, team: 'crew', rpm: CROWD }))
  const gate = createGate()
  near.script(gate.held(billing(HELLO_TOKENS, CAP)))
  let refused = 0
  const asked = Array.from({ length: CROWD }, async (_, each) => {
    const response = await ask(keys[each % KEYS] ?? '', { max_tokens: CAP })
    if (response.status !== 200) refused++
    return response
  })
  // Nobody gets an answer until all requests are refused or sent.
  while (refused + near.requests.length < CROWD) await Bun.sleep(2)
  gate.free()
  const responses = await Promise.all(asked)
  expect([near.requests.length, refused]).toEqual([ROOM, CROWD - ROOM])
  for (const response of responses.filter(({ status }) => status !== 200)) {
    const refusal = await toRefusal(response)
    expect(refusal).toMatchObject({ status: 429, code })
    expect(refusal.message).toContain(sentence)
  }
  // A key gets back what the team refused.
  const left = await Promise.all(
    keys.map(async (key) => {
      const { headers } = await ask(key, { model: 'acme/none' })
      return Number(headersFrom({ headers }, 'x-ratelimit-remaining-requests')['x-ratelimit-remaining-requests'])
    }),
  )
  expect(await app.count()).toBe(ROOM)
  if (limits.rpm === undefined) expect(left.reduce((sum, each) => sum + each, 0)).toBe(KEYS * CROWD - KEYS - ROOM)
  else expect(left).toEqual(keys.map(() => 0))
})
