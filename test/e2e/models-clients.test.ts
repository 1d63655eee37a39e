/** One list of models, for the official clients of both vendors: pages, single models, and errors. */
import { beforeAll, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
import { createWorkplace, type RunningBinary } from '../support/binary.ts'
import { toDoorCatalogue } from '../support/doors.ts'
import { forAllTests } from '../support/lifetime.ts'

let server: RunningBinary
let clients: { openai: OpenAI; anthropic: Anthropic }
const NOWHERE = 'http://127.0.0.1:1/v1'

const place = forAllTests(createWorkplace)
beforeAll(async () => {
  const catalog = await place.write('catalog.yaml', toDoorCatalogue({ near: NOWHERE, far: NOWHERE }))
  server = await place.serve(['--first-key', '--catalog', catalog], { environment: { UPSTREAM_KEY: 'x' } })
  clients = toClients(String(server.key))
})

const toClients = (apiKey: string) => ({
  openai: new OpenAI({ baseURL: server.baseUrl, apiKey, maxRetries: 0 }),
  anthropic: new Anthropic({ baseURL: server.baseUrl.replace(/\/v1$/, ''), apiKey, maxRetries: 0 }),
})

test('both list the same models, each with its known fields, and retrieve each of them', async () => {
  const { openai, anthropic } = clients
  const ofOpenAi = await Array.fromAsync(openai.models.list())
  const ofAnthropic = await Array.fromAsync(anthropic.models.list({ limit: 5 }))
  expect(ofOpenAi.length).toBeGreaterThan(20)
  expect(ofAnthropic.map(({ id }) => id)).toEqual(ofOpenAi.map(({ id }) => id))
  for (const { id, object, created } of ofOpenAi.slice(0, 3)) {
    expect(await openai.models.retrieve(id)).toMatchObject({ id, object, created })
    expect(await anthropic.models.retrieve(id)).toMatchObject({
      ...{ id, type: 'model', display_name: 'A', created_at: new Date(created * 1_000).toISOString() },
    })
  }
})

const failureOf = (asked: Promise<unknown>) =>
  asked.then(
    () => null,
    (error: unknown) => error,
  )

test("an invalid key and an unknown model are errors of each client's own", async () => {
  const strangers = toClients('sk-nobody-has-it')
  const { openai, anthropic } = clients
  expect(await failureOf(strangers.openai.models.list())).toBeInstanceOf(OpenAI.AuthenticationError)
  expect(await failureOf(openai.models.retrieve('no/such'))).toBeInstanceOf(OpenAI.NotFoundError)
  const stranger = await failureOf(strangers.anthropic.models.list())
  expect(stranger).toBeInstanceOf(Anthropic.AuthenticationError)
  expect(stranger).toMatchObject({
    type: 'authentication_error',
    requestID: expect.stringMatching(/^req_[0-9a-f]{32}$/),
  })
  const missing = await failureOf(anthropic.models.retrieve('no/such'))
  expect(missing).toBeInstanceOf(Anthropic.NotFoundError)
  expect(missing).toMatchObject({ type: 'not_found_error', requestID: expect.stringMatching(/^req_[0-9a-f]{32}$/) })
})
