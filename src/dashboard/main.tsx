/** Starts the dashboard in the page of `index.html`. How a page is added is in `README.md`. */
import { render } from 'preact'
import { followLinks } from './address/address.ts'
import { App, loadFirst } from './shell/app.tsx'
import { listenToKeys } from './shell/keyboard.ts'

const root = document.getElementById('app')
if (root) {
  loadFirst()
  root.replaceChildren()
  render(<App />, root)
  followLinks()
  listenToKeys()
}
