/**
 * In a page: text that is cut, that lies over other text, or that lies beside the screen, as sentences. Text may be cut where its title, or that
 * of what it is in, has all of it.
 */
;() => {
  const root = [...document.querySelectorAll('dialog[open]')].at(-1) ?? document.body
  const found = []
  const scale = Number.parseFloat(getComputedStyle(document.documentElement).fontSize) / 16
  const short = (text) => text.trim().replaceAll(/\s+/g, ' ').slice(0, 60)
  const nameOf = (element) => `${element.localName}${element.className ? `.${String(element.className).trim()}` : ''}`
  const isUnseen = (element) =>
    element !== null && (getComputedStyle(element).clipPath === 'inset(50%)' || isUnseen(element.parentElement))
  const isSeen = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !isUnseen(element)
  /** Kept on the screen, over what scrolls below it. */
  const isStuck = (element) =>
    element !== null &&
    element !== root &&
    (['fixed', 'sticky'].includes(getComputedStyle(element).position) || isStuck(element.parentElement))
  const measure = document.createElement('canvas').getContext('2d')
  const widthOf = (element, text) => {
    measure.font = getComputedStyle(element).font
    return measure.measureText(text).width
  }

  for (const element of root.querySelectorAll('*')) {
    if (element.namespaceURI !== document.documentElement.namespaceURI || !isSeen(element)) continue
    const { overflowX, overflowY, paddingLeft, paddingRight } = getComputedStyle(element)
    const [wide, high] = [
      element.scrollWidth - element.clientWidth > 1,
      element.scrollHeight - element.clientHeight > 1,
    ]
    const isTitled = element.closest('[title]') !== null
    const isCut = (overflow) => overflow === 'hidden' || overflow === 'clip'
    const text = short(element.textContent)
    if (text !== '' && !isTitled && ((wide && isCut(overflowX)) || (high && isCut(overflowY))))
      found.push(`${nameOf(element)} cuts "${text}"`)
    if (wide && ['auto', 'scroll'].includes(overflowX) && element.tabIndex < 0 && !element.matches('[role=tablist]'))
      found.push(`${nameOf(element)} scrolls sideways: "${text}"`)
    const room = element.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight)
    const shown = element.matches('select')
      ? (element.selectedOptions[0]?.text ?? '')
      : element.matches('input') && element.value === ''
        ? element.placeholder
        : ''
    // The arrow of a select takes some of its room.
    const arrow = element.matches('select') ? 16 : 0
    // Zoomed in further, a list that opens has all of it.
    if (!isTitled && innerWidth >= 390 * scale && shown !== '' && widthOf(element, shown) > room - arrow + 1)
      found.push(`${nameOf(element)} cuts "${shown}"`)
  }

  /** What is left of a box within everything that it is scrolled or cut in. */
  const clip = (box, element) => {
    let { left, top, right, bottom } = box
    for (let at = element; at !== null && at !== document.body; at = at.parentElement) {
      const { overflowX, overflowY, position } = getComputedStyle(at)
      const outer = at.getBoundingClientRect()
      if (overflowX !== 'visible') [left, right] = [Math.max(left, outer.left), Math.min(right, outer.right)]
      if (overflowY !== 'visible') [top, bottom] = [Math.max(top, outer.top), Math.min(bottom, outer.bottom)]
      if (position === 'fixed') break
    }
    return { left, top, right, bottom }
  }
  const lines = []
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement
    if (
      node.data.trim() === '' ||
      element === null ||
      element.closest('option, svg, script, .skip') ||
      isStuck(element) ||
      !isSeen(element)
    )
      continue
    const range = document.createRange()
    range.selectNodeContents(node)
    for (const box of range.getClientRects()) {
      const { left, top, right, bottom } = clip(box, element)
      // Letters are less high than their line.
      const less = (bottom - top) / 5
      if (right - left < 3 || bottom - top < 3) continue
      lines.push({ node, left: left + 1, right: right - 1, top: top + less, bottom: bottom - less })
      if (right > innerWidth + 1 || left < -1) found.push(`"${short(node.data)}" is beside the screen`)
    }
  }
  lines.sort((a, b) => a.top - b.top)
  for (const [at, line] of lines.entries()) {
    for (let next = at + 1; next < lines.length && lines[next].top < line.bottom; next++) {
      const other = lines[next]
      if (other.node !== line.node && other.left < line.right && line.left < other.right)
        found.push(`"${short(line.node.data)}" lies over "${short(other.node.data)}"`)
    }
  }
  return [...new Set(found)]
}
