/** Texts of server settings. */
import { expect, test } from 'bun:test'
import { toSettingTexts } from '../../src/config.ts'
import { toBytes, toCurl, toGroups, toPlace } from '../../src/dashboard/settings/words.ts'
import { SETTING_GROUPS } from '../../src/settings.ts'

const settings = toSettingTexts({ flags: {}, environment: {}, settings: {} })

test("each is in its group, in the server's order", () => {
  const groups = toGroups(settings)
  expect(groups.map(({ title }) => title)).toEqual(SETTING_GROUPS.filter((group) => group !== 'Sign-in'))
  expect(groups.flatMap((group) => group.settings)).toEqual(settings)
})

test('the source of a value', () => {
  const setting = { name: 'max-event-size', variable: 'TOLLGATE_MAX_EVENT_SIZE' }
  expect(toPlace({ ...setting, from: 'flag' })).toBe('flag --max-event-size')
  expect(toPlace({ ...setting, from: 'environment' })).toBe('variable TOLLGATE_MAX_EVENT_SIZE')
})

test.each([
  [0, '0 B'],
  [1_023, '1023 B'],
  [1_024, '1 KiB'],
  [2 ** 20 - 400, '1 MiB'],
  [12.4 * 2 ** 20, '12.4 MiB'],
  [64.3 * 2 ** 30, '64.3 GiB'],
  [2 * 2 ** 40, '2.0 TiB'],
])('%d bytes are %s', (bytes, text) => {
  expect(toBytes(bytes)).toBe(text)
})

test("a token is sent in the admin API's form", () => {
  expect(toCurl('https://gateway.example.com', 'sk-tgadm-1')).toBe(
    "curl https://gateway.example.com/admin/api/keys \\\n  -H 'Authorization: Bearer sk-tgadm-1'",
  )
})
