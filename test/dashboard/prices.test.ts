/** Prices on pages and in forms. */
import { expect, test } from 'bun:test'
import { isFree, toPerMillion, toPerToken, toPrices, toTypedPrice } from '../../src/dashboard/figures/figures.ts'

test('a price is shown per million tokens, exactly', () => {
  expect(toPerMillion('0.00000125')).toBe('$1.25')
  expect(toPerMillion('0.000010')).toBe('$10.00')
  expect(toPerMillion('0.0000000375')).toBe('$0.0375')
  expect(toPerMillion('1')).toBe('$1000000.00')
  expect(toPrices([{ prompt: '0', completion: '0.000' }])).toBe('free')
  expect(toPrices([{ prompt: '0', completion: '0' }], ['speech'])).toBe('no price set')
  expect(toPrices([{ prompt: '0', completion: '0', character: '0' }], ['speech'])).toBe('free')
  expect(toPrices([], ['speech'])).toBe('free')
  expect(toPrices([{ prompt: '0.00000125', completion: '0.00001' }])).toBe('$1.25 in, $10.00 out per million')
  expect(toPrices([{ prompt: '0', completion: '0', second: '0.0005' }])).toBe('$0.0005 per second of compute')
  expect(toPrices([{ prompt: '0.000001', completion: '0', second: '0.0005' }])).toBe(
    '$1.00 in, $0.00 out per million, $0.0005 per second of compute',
  )
})

test('prices of other units are shown by unit, the lowest of several', () => {
  const free = { prompt: '0', completion: '0' }
  expect(toPrices([{ ...free, audio_second: '0.0001' }])).toBe('$0.0001 per second of audio')
  expect(toPrices([{ ...free, character: '0.000015' }])).toBe('$15.00 per million characters')
  expect(toPrices([{ prompt: '0.000005', completion: '0.00001', image_token_completion: '0.000032' }])).toBe(
    '$5.00 in, $10.00 out, $32.00 images out per million',
  )
  const images = [free, { ...free, generated_image: '0.167' }, { ...free, generated_image: '0.011', quality: 'low' }]
  expect(toPrices(images)).toBe('from $0.011 per generated image')
  expect(isFree(images)).toBe(false)
})

test('a model without prices is free', () => {
  expect(isFree([])).toBe(true)
  expect(isFree([{ prompt: '0', completion: '0.00' }])).toBe(true)
  expect(isFree([{ prompt: '0', completion: '0.0000001' }])).toBe(false)
  expect(isFree([{ prompt: '0', completion: '0', second: '0.0001' }])).toBe(false)
  expect(isFree([{ prompt: '0', completion: '0', audio_completion: '0.000012' }])).toBe(false)
})

test.each([
  ['1.25', '0.00000125'],
  ['$10', '0.00001'],
  ['1,000', '0.001'],
  ['0.0375', '0.0000000375'],
  ['1000000', '1'],
  ['0', '0'],
  [' 2.50 ', '0.0000025'],
])('%s for a million is %s per token', (typed, perToken) => {
  expect(toPerToken(typed)).toBe(perToken)
  expect(toPerToken(toTypedPrice(perToken))).toBe(perToken)
})

test.each(['', 'free', '-1', '1e3', '1.', '.5', '1 2', '$'])('%p is not a price', (typed) => {
  expect(toPerToken(typed)).toBeNull()
})
