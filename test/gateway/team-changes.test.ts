/** Teams edited on a running server, and keys that change teams: spend stays where it was. */

import { expect, test } from 'bun:test'
import type { TeamChanges } from '../../src/keys/definition.ts'
import { createTeam, editKey, editTeam } from '../../src/keys/service.ts'
import { costOf, HELLO, startGateway } from '../support/gateway.ts'
import { forEachTest } from '../support/lifetime.ts'

const gateway = forEachTest(startGateway)

const team = (name: string, options: TeamChanges = {}) =>
  gateway.app.change((store, by) => createTeam(store, { name, ...options }, by))
const edit = (name: string, changes: TeamChanges) =>
  gateway.app.change((store, by) => editTeam(store, name, changes, by))

async function ask(secret: string, body: object = {}) {
  const response = await fetch(`${gateway.app.baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, ...body }),
  })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

const budget = (nanoUsd: number) => ({ budget: { nanoUsd, period: 'month' } as const })
/** Without a cap a request may write 1,000 tokens; it reads ten and writes five. */
const [MAX, SPENT] = [costOf(0, 1_000), costOf(10, 5)]
const spent = (requests: number) =>
  `Budget exceeded for team \`crew\`: $0.002 per month limit, $${(requests * SPENT) / 1e9} spent`

test('a larger budget admits its keys, a smaller one rejects them, and spend stays', async () => {
  team('crew', budget(MAX))
  const [ann = '', bob = ''] = ['ann', 'bob'].map((name) => gateway.app.key({ name, team: 'crew' }))
  expect((await ask(ann)).status).toBe(429)
  edit('crew', budget(2 * MAX))
  expect([(await ask(ann)).status, (await ask(bob)).status]).toEqual([200, 200])
  edit('crew', budget(MAX))
  expect((await ask(ann)).text).toContain(spent(2))
  // Without a budget nothing is refused, but spend still counts once there is one.
  edit('crew', { budget: null })
  expect((await ask(bob)).status).toBe(200)
  await gateway.app.settled(3)
  edit('crew', budget(MAX))
  expect((await ask(bob)).text).toContain(spent(3))
})

test('a changed rate continues with the counts of the last minute, and a removed one blocks no one', async () => {
  team('crew', { rpm: 2 })
  const keys = ['ann', 'bob'].map((name) => gateway.app.key({ name, team: 'crew' }))
  const statuses = () => Promise.all(keys.map(async (key) => (await ask(key)).status))
  expect(await statuses()).toEqual([200, 200])
  expect(await statuses()).toEqual([429, 429])
  edit('crew', { rpm: 3 })
  expect((await statuses()).toSorted()).toEqual([200, 429])
  edit('crew', { rpm: null })
  expect(await statuses()).toEqual([200, 200])
})

test('models and scope apply to the next request of each of its keys', async () => {
  team('crew')
  const key = gateway.app.key({ team: 'crew', models: ['acme/*', 'local/*'] })
  const status = async (model: string) => (await ask(key, { model })).status
  expect([await status('acme/large'), await status('acme/small')]).toEqual([200, 200])
  edit('crew', { models: ['acme/s*', 'other/*'] })
  expect([await status('acme/large'), await status('acme/small')]).toEqual([404, 200])
  edit('crew', { models: [], scope: 'local' })
  expect([await status('acme/small'), await status('local/tiny')]).toEqual([404, 200])
  edit('crew', { scope: 'all' })
  expect(await status('acme/large')).toBe(200)
})

test('a key that changes its team leaves spend and rates behind, and gets those of the other team', async () => {
  team('crew', { ...budget(10 * MAX), rpm: 9 })
  team('others', { ...budget(MAX), rpm: 1 })
  const key = gateway.app.key({ name: 'ann', team: 'crew' })
  const move = (to: string) => gateway.app.change((store, by) => editKey(store, 'ann', { team: to }, by))
  const left = async (body = {}) => {
    const { status, headers } = await ask(key, body)
    return [status, headers.get('x-ratelimit-limit-requests'), headers.get('x-ratelimit-remaining-requests')]
  }
  expect(await left()).toEqual([200, '9', '8'])
  expect(await left()).toEqual([200, '9', '7'])
  move('others')
  expect(await left({ max_tokens: 10 })).toEqual([200, '1', '0'])
  expect(await left({ max_tokens: 10 })).toEqual([429, '1', '0'])
  move('crew')
  expect(await left()).toEqual([200, '9', '6'])
  const rows = await gateway.app.settled(4)
  const [first, , third, last] = rows.map(({ team_id }) => team_id)
  expect([first === last, first === third]).toEqual([true, false])
  edit('crew', budget(MAX))
  expect((await ask(key)).text).toContain(spent(3))
})
