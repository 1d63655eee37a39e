/** What the server is set to, in words. */
import { expect, test } from 'bun:test'
import { toSettingTexts } from '../../src/config.ts'
import { TOPICS, toBytes, toCurl, toPlace, toTopics } from '../../src/dashboard/settings/words.ts'

const settings = toSettingTexts({ flags: {}, environment: {}, settings: {} })

test('every setting of the server is told of, and nothing else is', () => {
  const told = TOPICS.flatMap((topic) => Object.keys(topic.settings))
  expect(told.toSorted()).toEqual(settings.map(({ name }) => name).toSorted())
})

test('one that is not known here comes last', () => {
  expect(toTopics([{ name: 'new-one' }, { name: 'keep' }])).toEqual([
    { title: 'Records and backups', settings: [{ name: 'keep', what: expect.stringContaining('requests') }] },
    { title: 'Others', settings: [{ name: 'new-one', what: '' }] },
  ])
})

test('where a value is from', () => {
  const setting = { name: 'max-event', variable: 'TOLLGATE_MAX_EVENT' }
  expect(toPlace({ ...setting, from: 'flag' })).toBe('the flag --max-event')
  expect(toPlace({ ...setting, from: 'environment' })).toBe('the variable TOLLGATE_MAX_EVENT')
})

test.each([
  [0, '0 B'],
  [999, '999 B'],
  [1_000, '1 kB'],
  [999_600, '1 MB'],
  [12_440_000, '12.4 MB'],
  [64_300_000_000, '64.3 GB'],
  [2_000_000_000_000, '2.0 TB'],
])('%d bytes are %s', (bytes, text) => {
  expect(toBytes(bytes)).toBe(text)
})

test('a token is sent as the admin API takes it', () => {
  expect(toCurl('https://gateway.example.com', 'sk-tgadm-1')).toBe(
    "curl https://gateway.example.com/admin/api/keys \\\n  -H 'Authorization: Bearer sk-tgadm-1'",
  )
})
