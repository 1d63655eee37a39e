/**
 * The browser of the tests: Chromium, or Firefox with `BROWSER=firefox`. Debian's Firefox ESR supports WebDriver BiDi,
 * which Playwright calls the channel `moz-firefox`; Playwright 1.65 needs a newer Firefox.
 */
import { type Browser, type BrowserContextOptions, chromium, firefox } from 'playwright-core'

const find = (...names: string[]) => names.map((name) => Bun.which(name)).find(Boolean) ?? undefined

export const CHROMIUM = process.env.CHROMIUM ?? find('chromium', 'chromium-browser', 'google-chrome')

export const isFirefox = process.env.BROWSER === 'firefox'
const name = isFirefox ? 'Firefox' : 'Chromium'
const path = isFirefox ? find('firefox-esr', 'firefox') : CHROMIUM
const executablePath = String(path)

/** For `describe.skipIf`. */
export const hasNoBrowser = path === undefined
if (hasNoBrowser)
  console.warn(
    `The tests of the dashboard in a browser are skipped: ${name} is not installed (apt-get install ${isFirefox ? 'firefox-esr' : 'chromium'}).`,
  )

export type Colors = 'light' | 'dark'

/** The browser's setting for the text size. */
export type TextSize = 'usual' | 'double'

/** One browser for each text size, and in Firefox for each color scheme, which all its pages share. */
export function createEngine() {
  const opened = new Map<string, Promise<Browser>>()
  return {
    newContext: async (colors: Colors, options: BrowserContextOptions, text: TextSize = 'usual') => {
      const which = isFirefox ? `${text} ${colors}` : text
      const browser = opened.getOrInsertComputed(which, () =>
        isFirefox ? launchFirefox(colors, text) : launchChromium(text),
      )
      const own: BrowserContextOptions = isFirefox
        ? { colorScheme: null }
        : { colorScheme: colors, permissions: ['clipboard-read', 'clipboard-write'] }
      return (await browser).newContext({ ...options, ...own })
    },
    close: async () => {
      for (const browser of opened.values()) await (await browser).close()
    },
  }
}

const DOUBLE_PX = 32

const launchChromium = (text: TextSize) =>
  chromium.launch({
    executablePath,
    args: [
      ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      ...(text === 'double' ? [`--blink-settings=defaultFontSize=${DOUBLE_PX}`] : []),
    ],
  })

const launchFirefox = (colors: Colors, text: TextSize) =>
  firefox.launch({
    ...{ executablePath, channel: 'moz-firefox' },
    firefoxUserPrefs: {
      'layout.css.prefers-color-scheme.content-override': colors === 'dark' ? 0 : 1,
      // Clipboards are read without a prompt.
      'dom.events.testing.asyncClipboard': true,
      ...(text === 'double' && { 'font.size.variable.x-western': DOUBLE_PX }),
    },
  })
