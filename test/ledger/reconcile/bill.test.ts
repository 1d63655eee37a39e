/** Providers' exports are read exactly, or refused with the position of the error. */
import { describe, expect, test } from 'bun:test'
import { type Bill, BillReader, readPages } from '../../../src/ledger/reconcile/bill.ts'
import { findProvider, type ProviderName, providers } from '../../../src/ledger/reconcile/providers.ts'
import { activity, costReport, costs, DAY, usage, usageReport } from './exports.ts'

const TODAY = DAY + 5 * 86_400_000

function read(name: ProviderName, ...texts: string[]): Bill {
  const reader = new BillReader(providers[name])
  for (const [at, text] of texts.entries())
    for (const page of readPages(text, `${at}.json`)) reader.add(page, `${at}.json`)
  return reader.finish(TODAY)
}

const refusal = (name: ProviderName, ...texts: string[]) => {
  try {
    read(name, ...texts)
    return 'accepted'
  } catch (error) {
    return (error as Error).message
  }
}

describe('amounts', () => {
  const amountOf = (value: string) =>
    read('openai', JSON.stringify(costs([{}])).replace('"VALUE"', value)).costs[0]?.atto

  test.each([
    ['0.06', 60_000_000_000_000_000n],
    ['1.2500001e-7', 125_000_010_000n],
    // A double would end in …3072592.
    ['0.130804383403072591', 130_804_383_403_072_591n],
    ['999999999999', 999_999_999_999_000_000_000_000_000_000n],
    ['"12.5"', 12_500_000_000_000_000_000n],
    ['1e3', 1_000_000_000_000_000_000_000n],
  ])('%s is read to the last digit', (value, atto) => {
    expect(amountOf(value)).toBe(atto)
  })

  test("Anthropic's are in cents", () => {
    expect(read('anthropic', JSON.stringify(costReport([{ amount: '123.45' }]))).costs[0]?.atto).toBe(
      1_234_500_000_000_000_000n,
    )
  })

  test.each(['-0.01', 'NaN', 'Infinity', 'null', '"a"', '1e99', '1e400', '{}', '""', '1234567890123'])(
    '%s is refused',
    (value) => {
      expect(refusal('openai', JSON.stringify(costs([{}])).replace('"VALUE"', value))).toMatch(
        /0\.json: data\[0\]\.results\[0\] has `amount\.value` .*must be an amount from 0\./,
      )
    },
  )
})

test("a line item's model is the text before the direction, without tier and modality", () => {
  const items = [
    'gpt-5-2026-01-02, cached input',
    'priority | gpt-5, output, long context',
    'gpt-audio-mini audio, input',
    'ft:gpt-4o:acme::x, input',
    'web search tool calls',
    'Vector storage',
  ]
  const bill = read(
    'openai',
    JSON.stringify(costs(items.map((line_item) => ({ line_item })))).replaceAll('"VALUE"', '1'),
  )
  expect(bill.costs.map(({ model }) => model)).toEqual([
    ...['gpt-5-2026-01-02', 'gpt-5', 'gpt-audio-mini', 'ft:gpt-4o:acme::x', null, null],
  ])
})

test('inputs of Anthropic are added up as other providers report them', () => {
  const [line] = read('anthropic', JSON.stringify(usageReport([{ model: 'm' }]))).usage
  expect(line?.figures).toEqual({
    ...{ input: 1_500 + 200 + 500 + 1_000, cached: 200, cache_write: 1_500, cache_write_1h: 1_000 },
    ...{ output: 500, web_searches: 10 },
  })
})

test('only complete days count, including those without usage, and hours add up to a day', () => {
  const hours = usage([])
  const [bucket] = hours.data
  if (!bucket) throw new Error('no bucket')
  hours.data = Array.from({ length: 36 }, (_, at) => ({
    ...{ ...bucket, results: [] },
    ...{ start_time: bucket.start_time + at * 3_600, end_time: bucket.start_time + (at + 1) * 3_600 },
  }))
  const bill = read('openai', `${JSON.stringify(hours)}\n${JSON.stringify(usage([{}], TODAY))}`)
  expect([...bill.days.usage]).toEqual([DAY])
  expect(bill.days.costs.size).toBe(0)
  expect(bill.notes).toEqual(['2026-11-17, 2026-11-21: not a whole day in the export, left out.'])
})

test('a page without lines is of the same kind as the rest of its file, and ignored if nothing tells the kind', () => {
  const [day, next] = [DAY, DAY + 86_400_000]
  const text = (...pages: object[]) => JSON.stringify(pages).replaceAll('"VALUE"', '1')
  const known = read('openai', text(costs([], day), costs([{}], next)))
  expect([[...known.days.usage], [...known.days.costs].sort()]).toEqual([[], [day, next]])
  for (const file of [text(costs([], day)), text(costs([], day), costs([{}], next), usage([{}], next))]) {
    const { days, notes } = read('openai', file)
    expect([...days.usage, ...days.costs]).not.toContain(day)
    expect(notes).toEqual(['0.json: days without lines could be of usage or of costs, left out.'])
  }
})

test('a file holds a page, a list of pages, or a page per line', () => {
  const [one, two] = [usage([{}]), usage([{}], DAY + 86_400_000)]
  for (const text of [JSON.stringify([one, two]), `${JSON.stringify(one)}\n${JSON.stringify(two)}\n`])
    expect(read('openai', text).usage.length).toBe(2)
})

test('the provider is known by the first line', () => {
  const pages = [usage([]), usageReport([]), activity([{}])]
  expect(pages.map((page) => findProvider([{ data: [] }, page]))).toEqual(['openai', 'anthropic', 'openrouter'])
  expect(findProvider([{ data: [] }])).toBe(null)
})

describe('a file is refused, with the position, if', () => {
  const line = (fields: object) => JSON.stringify(usage([fields]))
  test.each([
    ['it is no JSON', 'openai', ['nothing'], /0\.json must hold the JSON/],
    ['it has another shape', 'openai', ['{"data":{}}'], /0\.json must hold the JSON/],
    ['it is a list of something else', 'openai', ['[1]'], /must hold the JSON/],
    ['it is nested a million levels deep', 'openai', ['['.repeat(1e6)], /must hold the JSON/],
    ['a count is negative', 'openai', [line({ input_tokens: -1 })], /data\[0\]\.results\[0\] has `input_tokens` -1/],
    ['a count is a fraction', 'openai', [line({ output_tokens: 1.5 })], /`output_tokens` 1\.5: must be a whole/],
    ['a count is beyond exact integers', 'openai', [line({ output_tokens: 2 ** 53 })], /must be a whole number/],
    ['a count is text', 'openai', [line({ num_model_requests: '5' })], /`num_model_requests` "5"/],
    ['a model is no text', 'openai', [line({ model: {} })], /`model` that must be a text/],
    ['a model is a novel', 'openai', [line({ model: 'm'.repeat(201) })], /up to 200 characters/],
    [
      'a day is there twice',
      'openai',
      [line({}), line({ input_tokens: 2 })],
      /1\.json: .* repeats an earlier line of 2026-11-16/,
    ],
    [
      'another currency',
      'openai',
      [JSON.stringify(costs([{ amount: { value: 1, currency: 'eur' } }]))],
      /currency "eur"/,
    ],
    ['no currency', 'anthropic', [JSON.stringify(costReport([{ currency: undefined }]))], /currency null/],
    ['a bucket is a week', 'openai', [line({}).replace(/"end_time":\d+/, '"end_time":1800000000')], /one UTC day/],
    ['a bucket ends before it starts', 'openai', [line({}).replace(/"end_time":\d+/, '"end_time":5')], /one UTC day/],
    ['a time is absurd', 'openai', [line({}).replace(/"start_time":\d+/, '"start_time":1e300')], /Unix seconds/],
    [
      'a time is no date',
      'anthropic',
      [JSON.stringify(usageReport([])).replace('2026-11-16T', '2026-02-31T')],
      /`starting_at`/,
    ],
    [
      'providers are mixed',
      'openai',
      [line({}), JSON.stringify(activity([{}]))],
      /1\.json: data\[0\] has another shape/,
    ],
    ['a line is of no known kind', 'openai', [line({ object: 'x' })], /no known `object`/],
    [
      'a line has no tokens',
      'anthropic',
      [JSON.stringify(usageReport([{ output_tokens: null }]))],
      /neither an amount nor/,
    ],
    ['a date is missing', 'openrouter', [JSON.stringify(activity([{ date: 'soon' }]))], /has no `date`/],
    ['dates span ages', 'openrouter', [JSON.stringify(activity([{}, { date: '1026-01-01' }]))], /more than 1000 days/],
  ] as const)('%s', (_, name, texts, message) => {
    expect(refusal(name, ...texts)).toMatch(message)
  })
})

test('usage of services that Tollgate never calls is left out, with a note', () => {
  const bill = read('openai', JSON.stringify(usage([{}, { object: 'organization.usage.images.result' }])))
  expect([bill.usage.length, bill.notes]).toEqual([1, ["1 line of services that Tollgate doesn't call: left out."]])
})
