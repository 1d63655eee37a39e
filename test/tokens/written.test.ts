/** The estimate for budgets while a model writes a text, compared with the vocabulary's count. */
import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { tokensWritten } from '../../src/tokens/estimate.ts'
import { createPicker } from '../support/random.ts'

const pick = createPicker(7)
const random = (letters: string) => Array.from({ length: 8_000 }, () => letters[pick(letters.length)]).join('')
const file = (path: string) => readFileSync(`${import.meta.dir}/../../${path}`, 'utf8').slice(0, 20_000)

const TEXTS: [name: string, text: string, most: number][] = [
  ['prose', file('README.md'), 1.4],
  ['code', file('src/gateway/dispatch.ts'), 1.4],
  ['a lock file', file('bun.lock'), 1.4],
  ['JSON', JSON.stringify(JSON.parse(file('package.json'))).repeat(4), 1.4],
  ['Chinese', '这是一个关于人工智能的测试文本，我们需要计算它的令牌数量。'.repeat(100), 1.4],
  ['Russian', 'Это тестовый текст о том, как модели пишут ответы. '.repeat(100), 1.4],
  ['Amharic', 'ይህ የሙከራ ጽሑፍ ነው '.repeat(100), 1.4],
  ['French', "L'été dernier, l'intelligence artificielle s'est développée à une vitesse élevée. ".repeat(80), 1.4],
  ['Vietnamese', 'Đây là một văn bản thử nghiệm về cách các mô hình viết câu trả lời. '.repeat(80), 1.6],
  ['emoji', '😀🎉🚀👨‍👩‍👧‍👦🇩🇪🏳️‍🌈'.repeat(200), 1.4],
  ['letters under piles of accents', 'a̷̛̫b̴͎͝c̸'.repeat(300), 1.4],
  // Output of a model that fails to end its JSON.
  ['white space without end', random(' \n\t'), 1.4],
  ['empty lines without end', '\n'.repeat(4_000), 1.4],
  ['digits', random('0123456789'), 1.4],
  // At most 150%, and at least 50%.
  ['random letters', random('abcdefghijklmnopqrstuvwxyz'), 2],
  ['base64', random('ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'), 2],
]

test.each(TEXTS)('%s is estimated within its factor, wherever it is cut', (_, text, most) => {
  const counted = countTokens(text)
  const estimated = tokensWritten(text)
  expect(estimated).toBeGreaterThan(counted / most)
  expect(estimated).toBeLessThan(counted * most)
  const middle = text.indexOf(' ', text.length / 2) + 1 || Math.floor(text.length / 2)
  const inTwo = tokensWritten(text.slice(0, middle)) + tokensWritten(text, middle)
  expect(Math.abs(inTwo - estimated)).toBeLessThan(4)
})
