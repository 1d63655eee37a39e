/** On every endpoint: whole and streamed responses cost the same, and are recorded to the nano-dollar. */
import { expect, test } from 'bun:test'
import { checkHeaders } from '../support/contract.ts'
import { hear } from '../support/door-clients.ts'
import { COUNTS, WORDS } from '../support/door-upstreams.ts'
import { costOf, DOORS, type Door, type DoorRow, STREAMING, startDoors, writes } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'

const gateway = forAllTests(startDoors)

const completionOf = (door: Door) => (writes(door) ? COUNTS.completion : 0)
const costAt = (door: Door) => costOf(COUNTS.prompt, completionOf(door))
/** Passthrough responses, and bytes, don't state Tollgate's cost. */
const toldCost = (door: Door, stream: boolean) =>
  door.lane === 'translated' && (stream || !door.client.isBytes) ? costAt(door) : null

function expectRecorded(door: Door, row: DoorRow | undefined, { headers }: Response): void {
  const { client, lane, id } = door
  expect(row).toMatchObject({
    ...{ endpoint: client.endpoint, lane, model: `${id}/one`, upstream: id, status: 'ok', http_status: 200 },
    ...{ error_code: null, estimated: 0, attempts: 1, prompt_tokens: COUNTS.prompt },
    ...{ completion_tokens: completionOf(door), cost_nano_usd: costAt(door) },
  })
  expect(Object.fromEntries(headers)).toMatchObject({
    ...{ 'x-request-id': `req_${row?.id}`, 'x-tollgate-upstream': id, 'x-tollgate-attempts': '1' },
    'x-tollgate-passthrough': String(lane === 'native'),
    ...(client.endpoint === 'messages' ? { 'request-id': `req_${row?.id}` } : {}),
  })
}

test.each(DOORS)('a whole response of $name has its text, receipt, and row', async (door) => {
  await gateway.calm(door)
  const response = await gateway.ask(door)
  const text = await response.text()
  if (!door.client.isBytes) checkHeaders('whole', response.headers)
  if (door.lane === 'translated') door.client.check.whole(text)
  const said = writes(door) ? WORDS.join('') : null
  expect(door.client.whole(text)).toEqual({ text: said, costNanoUsd: toldCost(door, false) })
  const [row] = await gateway.rows(1)
  expect(row?.stream).toBe(door.client.isBytes ? 1 : 0)
  expectRecorded(door, row, response)
})

test.each(STREAMING)('a streamed response of $name has the same, and the same cost', async (door) => {
  await gateway.calm(door)
  const response = await gateway.ask(door, { stream: true })
  const text = await response.text()
  checkHeaders('stream', response.headers)
  if (door.lane === 'translated') door.client.check.stream(text)
  expect(hear(door.client, text)).toMatchObject({
    ...{ text: WORDS.join(''), end: 'whole', failure: null, costNanoUsd: toldCost(door, true) },
  })
  const [row] = await gateway.rows(1)
  expect(row?.stream).toBe(1)
  expectRecorded(door, row, response)
})
