/** The list of what the keyboard does, and the way to what programs do. */
import { toHref } from '../address/address.ts'
import { mayTry } from '../api/session.ts'
import { Overlay } from '../ui/overlay.tsx'
import { isHelpOpen, MODIFIER } from './keyboard.ts'
import { maySee, PAGES } from './pages.ts'

const close = () => {
  isHelpOpen.value = false
}

export function Help() {
  if (!isHelpOpen.value) return null
  const offered = PAGES.flatMap((page) => (page.offered && maySee(page) ? [page.offered] : []))
  const chat: [string[], string][] = mayTry() ? [[[MODIFIER, '↵'], 'Send what is written, in the playground']] : []
  const lines: [keys: string[], what: string][] = [
    [['/'], 'Search on this page'],
    [['n'], 'Make something new'],
    ...offered.map(({ letter, label }): [string[], string] => [['g', letter], `Go to ${label}`]),
    [['↑', '↓'], 'Go through a list'],
    [['Esc'], 'Close what is open, stop an answer'],
    ...chat,
    [['?'], 'This list'],
  ]
  return (
    <Overlay title="Help" onClose={close}>
      <h3>Keyboard</h3>
      <dl class="shortcuts">
        {lines.map(([keys, what]) => (
          <div key={what}>
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <p>
        For programs:{' '}
        <a href={toHref('/reference')} onClick={close}>
          the API reference
        </a>
      </p>
    </Overlay>
  )
}
