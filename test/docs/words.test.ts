/** Texts that people read are in plain English: no words or shapes that the style of this project has given up (docs/internals.md). */
import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const ROOT = join(import.meta.dir, '../..')

/** Each with what to write in its place. */
const BANNED: readonly [pattern: RegExp, better: string][] = [
  [/\banew\b/i, 'again, re-create'],
  [/\bwhoever\b|\bwhosever\b/i, 'name the actor'],
  [/\bof late\b/i, 'recently'],
  [/\bin all\b(?! (?:models|cases|of|keys|its|requests))/i, 'total'],
  [/\b(?:is|are) made\b/i, 'name the actor: created'],
  [/\bby itself\b|\bby themselves\b/i, 'automatically'],
  [/\ball the same\b/i, 'anyway'],
  [/\bbeside\b/i, 'next to, with'],
  [/\bas (?:it|they) came\b/i, 'unchanged, passed through'],
  [/\bthat there (?:is|are)\b/i, 'existing'],
  [/\bfor want of\b/i, 'because there is no'],
  [/\bof now\b/i, 'now, current'],
  [/\bon record\b/i, 'recorded'],
  [/\bunder way\b/i, 'in flight, running'],
  [/\bended well\b|\bend well\b/i, 'succeeded'],
  [/\bfor good\b/i, 'permanently'],
  [/(?<!there )\b(?:is|are) no (?!longer\b|more\b|such\b)/i, 'invalid, must be'],
  [/\bcomes? out\b/i, 'matches, costs'],
  [/\bsealed\b/i, 'encrypted'],
  [/\btyped in\b/i, 'entered, stored'],
  [/\bis told\b|\bare told\b/i, 'is shown, is logged'],
  [/\bsomebody\b|\bnobody\b|\beverybody\b/i, 'someone, no one, or name them'],
  [/\d %/, '90%'],
  [/\bcatalogues?\b/i, 'catalog'],
  [/\bcancelled\b|\bcolours?\b|\blicence\b|\bbehaviour\b|\bpenalised\b/i, 'American spelling'],
]

/** Texts that keep a banned word, and why. */
const EXCEPTIONS: readonly [text: string, why: string][] = []

const toProblems = (text: string) =>
  BANNED.flatMap(([pattern, better]) => {
    const found = pattern.exec(text)?.[0]
    return found === undefined || EXCEPTIONS.some(([kept]) => text.includes(kept)) ? [] : [`'${found}': ${better}`]
  })

const filesIn = (folder: string, pattern: RegExp) =>
  readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => pattern.test(name))
    .map((name) => join(folder, name))

/** Comments, or what stands in quotes or between tags. */
const TOKENS =
  /(\/\*.*?\*\/|\/\/[^\n]*)|'((?:\\.|[^'\\\n])*)'|"((?:\\.|[^"\\\n])*)"|`((?:\\.|[^`\\])*)`|>([^<>{}=;()]*[a-z] [^<>{}=;()]*)</gs

/** Texts with a space in them: names and codes have none. */
const toTexts = (source: string) =>
  [...source.matchAll(TOKENS)].flatMap(([, comment, ...texts]) => {
    const text = texts.find((one) => one !== undefined)
    return comment === undefined && text?.includes(' ') ? [text] : []
  })

test('no shipped string has a banned word', () => {
  const problems = filesIn('src', /\.tsx?$/).flatMap((file) =>
    toTexts(readFileSync(join(ROOT, file), 'utf8')).flatMap((text) =>
      toProblems(text).map((problem) => `${file}: ${problem} in: ${text.slice(0, 120)}`),
    ),
  )
  expect(problems).toEqual([])
})

const DOCS = ['README.md', 'CHANGELOG.md', ...filesIn('docs', /\.md$/)]
const toProse = (page: string) =>
  readFileSync(join(ROOT, page), 'utf8')
    .replace(/^```.*?^```/gms, '')
    .replace(/<[^>]*>/gs, '')

test('no page of the docs has a banned word', () => {
  const problems = DOCS.flatMap((page) =>
    toProse(page)
      .replace(/`[^`\n]*`/g, '')
      .split('\n')
      .flatMap((line) => toProblems(line).map((problem) => `${page}: ${problem} in: ${line.slice(0, 120)}`)),
  )
  expect(problems).toEqual([])
})

test('no sentence of the docs has more than 30 words', () => {
  const long = DOCS.flatMap((page) =>
    toProse(page)
      .split(/\n{2,}|\n(?=[|#>-])|\|/)
      .map((block) => block.replace(/\s+/g, ' ').replace(/\]\([^)]*\)/g, ']'))
      .flatMap((block) => block.split(/(?<=[.!?:;])["')*]* (?=[A-Z`"[*(])/))
      .filter((sentence) => sentence.split(' ').filter((word) => /\w/.test(word)).length > 30)
      .map((sentence) => `${page}: ${sentence}`),
  )
  expect(long).toEqual([])
})
